"""Image banks and albums: labelled images and scenes read from the disk."""
