"""Moves: facts from room to room, on a schedule."""
