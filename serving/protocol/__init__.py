"""What requests and replies say, in the words of each API. Pure."""
