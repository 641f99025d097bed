"""The bundled shop of ``turngate/Web-v1``: a small web shop over SQLite, its endless tasks and their grading.

catalogue, accounts → shop_tables → app, shop_site        the shop that a page shows
buying, account_errands → generate → Task; plans, hints   what is asked, and the steps that do it
changed, grading                                          what became of the database, and whether that was asked for
"""
