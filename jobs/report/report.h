// `longwave report RUN... -o FILE.html`: one file about one or several runs that needs nothing else, no network and no
// script; it prints, and it fits a phone.
#pragma once

#include <string>
#include <vector>

namespace longwave {

// Reads the run directories and writes `output`, complete or not at all. Throws data_error when a directory is no run
// directory, io_error when `output` cannot be written. Plots need gnuplot: without it the report has its tables and says
// why. Starts processes, so never between MPI_Init and MPI_Finalize.
void write_report(const std::vector<std::string>& run_directories, const std::string& output);

}  // namespace longwave
