"""Published figures about data sets and models, as data files with their sources."""
