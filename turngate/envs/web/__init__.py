"""``turngate/Web-v1``: pages in a real browser, clicked and read by reference or by coordinates."""
