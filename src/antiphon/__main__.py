"""``python -m antiphon``: the command line, where the program ``antiphon`` is not on the path."""

from antiphon.cli import main

if __name__ == "__main__":
    main()
