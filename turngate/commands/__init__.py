"""The commands of ``turngate``, one file each; ``turngate.cli`` declares them and imports one when it is called."""
