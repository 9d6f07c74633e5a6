"""The parts of the fake CLI; ../fake_claude.py is the program."""
