"""The browser of ``turngate/Web-v1``: one Chromium for many episodes, each in a context of its own.

``browser`` leases sessions, ``browser_session`` is what an environment uses, ``view`` a page as it sees it,
``site_handler`` answers a page's requests in this process. ``page_problems`` says how all of that can fail.
"""
