"""`python -m ridgeformer` is the command line."""

from ridgeformer.cli import main

if __name__ == "__main__":
    main()
