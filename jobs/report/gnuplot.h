// Line plots by gnuplot (Debian's gnuplot-nox 5.4), returned as SVG text to put into a page. No text of a user's enters a
// plot: names and legends stand in the page, so nothing has to be escaped for gnuplot.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace longwave {

struct Curve {
  std::vector<std::pair<double, double>> points;  // ascending x; a non-finite y breaks the line
  std::vector<double> spread;                     // half the length of an error bar at each point; empty: none
  std::string color;                              // "#rrggbb"
  int dash = 1;                                   // gnuplot's dash type: 1 solid, 2 dashed, ...
  int marker = 0;                                 // gnuplot's point type; 0: none
};

struct Mark {  // a vertical line across the plot
  double x = 0;
  std::string text;
};

struct Plot {
  std::string name;  // letters and digits; makes the ids of the SVG's elements unique in a page
  std::string x_label, y_label;
  bool x_log = false;  // base 2, with ticks at x_ticks; else linear from 0
  std::vector<std::int64_t> x_ticks;
  bool y_log = false;  // ticks at round numbers between the decades too
  bool y_from_zero = false;
  bool y_percent = false;
  std::vector<Mark> marks;
  std::vector<Curve> curves;

  bool empty() const;  // no curve has a finite point
};

// Runs gnuplot in a temporary folder and returns the <svg> element, with ids prefixed by plot.name. Throws io_error, with
// gnuplot's own words, when gnuplot is not installed, fails, or takes more than a minute. It starts a process, which Open
// MPI forbids between MPI_Init and MPI_Finalize.
std::string draw_svg(const Plot& plot);

}  // namespace longwave
