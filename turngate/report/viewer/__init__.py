"""The page in which a run explains itself: one HTML file (``report RUN --html``), or served (``turngate view``).

Two halves. In Python: ``run_record`` and ``episode_record`` turn a run's records into plain JSON; ``html_file`` puts it
into the page, ``live_runs`` and ``view_server`` hand it out while a run writes. In the browser: ``page/`` draws it,
with the libraries in ``vendor/``, whose versions are named there; nothing is built and nothing is fetched from
elsewhere. Texts of models and environments become ``literal`` here, and text nodes there: none is markup.
"""
