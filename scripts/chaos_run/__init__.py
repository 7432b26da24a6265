"""What an honest tenant gets while a hostile one does its worst, beside what it gets alone."""
