"""``python -m turngate``: the command line, where its script is not on the path."""

from turngate.cli.main import main

if __name__ == "__main__":
    main()
