"""Skills: files that say how something is done, found in folders and read from nowhere else."""
