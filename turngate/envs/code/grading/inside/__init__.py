"""Code that runs inside a sandbox. These files are shown to it; the library itself never imports them."""
