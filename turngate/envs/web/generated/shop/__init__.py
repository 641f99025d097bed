"""The bundled shop of ``turngate/Web-v1``: a small web shop over SQLite, its endless tasks and their grading.

catalogue, accounts → shop_tables → app, shop_site        the shop that a page shows
buying, account_errands → generate → Task; plans, hints   the instruction, and the steps that do it
changed, grading                                          the changes of the database, and whether they were asked for
"""
