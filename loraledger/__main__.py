"""`python -m loraledger`."""

from loraledger.cli import main

if __name__ == "__main__":
    main()
