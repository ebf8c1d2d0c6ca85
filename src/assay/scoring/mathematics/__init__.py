"""Whether two mathematical answers are the same: as normalised LaTeX, as Minerva's answers, by math-verify."""
