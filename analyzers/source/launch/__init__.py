"""From a launch command to the program it starts: shell words, scripts, launchers. Nothing is executed."""
