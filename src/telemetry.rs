//! Log files and levels of the program (requirement O1).
