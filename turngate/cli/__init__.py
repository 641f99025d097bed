"""The command line: ``main`` declares the commands, one file each, and imports one when it is called."""
