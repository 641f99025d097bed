"""The browser of ``turngate/Web-v1``: one Chromium for many episodes, each in a context of its own.

``browser`` leases sessions, ``session`` is what an environment uses, ``view`` what it sees of a page, ``site`` what
answers a page's requests in this process. ``problems`` says how all of that can fail.
"""
