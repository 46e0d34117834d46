"""Import histories: transcripts, databases of other systems, archives; watch directories."""
