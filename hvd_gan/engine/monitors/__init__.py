"""What happens around a step, one kind a file; the loop itself is `engine.trainer`."""
