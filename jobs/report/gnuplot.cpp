#include "jobs/report/gnuplot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "jobs/report/format.h"

extern char** environ;

namespace longwave {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds(60);
constexpr const char* ink = "#444444";
constexpr const char* grid = "#e4e4e4";

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

bool drawable(const Plot& plot, double x, double y) {
  return std::isfinite(x) && std::isfinite(y) && (!plot.x_log || x > 0) && (!plot.y_log || y > 0);
}

Range value_range(const Plot& plot, bool of_y) {
  Range range;
  for (const Curve& curve : plot.curves) {
    for (const auto& [x, y] : curve.points) {
      if (!drawable(plot, x, y)) continue;
      range.low = std::min(range.low, of_y ? y : x);
      range.high = std::max(range.high, of_y ? y : x);
    }
  }
  return range;
}

std::string tick(double value) {
  const std::string label = value >= 1e6 || (value > 0 && value < 1e-3) ? fmt::format("{:.0e}", value)
                            : value >= 1000                             ? show_integer(value)
                                                                        : fmt::format("{:.4g}", value);
  return fmt::format("'{}' {:.9g}", label, value);
}

std::vector<double> linear_ticks(Range range) {
  const double rough = (range.high - range.low) / 5, decade = std::pow(10, std::floor(std::log10(rough)));
  const double step = decade * (rough < 1.5 * decade ? 1 : rough < 3.5 * decade ? 2 : rough < 7.5 * decade ? 5 : 10);
  std::vector<double> ticks;
  for (double at = std::ceil(range.low / step - 1e-9); at * step <= range.high * (1 + 1e-9); ++at)
    ticks.push_back(at * step + 0.0);  // + 0: no "-0"
  return ticks;
}

// Decades, or every so many of them; where they are few, round numbers between them too.
std::vector<double> log_ticks(Range range) {
  if (range.high / range.low < 5) return linear_ticks(range);
  const int first = static_cast<int>(std::floor(std::log10(range.low))),
            last = static_cast<int>(std::floor(std::log10(range.high)));
  const int stride = 1 + (last - first) / 6;
  std::vector<double> ticks;
  for (const std::vector<double>& steps : {std::vector<double>{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 7}}) {
    ticks.clear();
    for (int decade = first; decade <= last; decade += stride) {
      for (const double step : steps) {
        const double value = step * std::pow(10, decade);
        if (value >= range.low && value <= range.high) ticks.push_back(value);
      }
    }
    if (ticks.size() >= 4) break;
  }
  return ticks;
}

std::string y_axis(const Plot& plot) {
  if (plot.y_percent) return "set yrange [-0.02:1.02]\nset ytics ('0%%' 0, '25%%' .25, '50%%' .5, '75%%' .75, '100%%' 1)\n";
  Range range = value_range(plot, true);
  if (plot.y_log) {
    const double margin = std::max(1.05, std::pow(range.high / range.low, 0.06));
    range = {range.low / margin, range.high * margin};
  } else {
    const double span = std::max(range.high - range.low, 1e-3 * std::max(1.0, std::abs(range.high)));
    range = {plot.y_from_zero ? std::min(0.0, range.low) : range.low - 0.05 * span, range.high + 0.07 * span};
  }
  std::string ticks;
  for (const double value : plot.y_log ? log_ticks(range) : linear_ticks(range))
    ticks += (ticks.empty() ? "" : ", ") + tick(value);
  return fmt::format("{}set yrange [{:.9g}:{:.9g}]\nset ytics ({})\nunset mytics\n", plot.y_log ? "set logscale y\n" : "",
                     range.low, range.high, ticks);
}

std::string x_axis(const Plot& plot) {
  const Range range = value_range(plot, false);
  // A little more than the data, or the last tick may be lost to rounding.
  if (!plot.x_log) return fmt::format("set xrange [0:{:.9g}]\n", range.high * 1.02);
  std::string text =
      fmt::format("set logscale x 2\nset xrange [{:.9g}:{:.9g}]\nset xtics (", range.low / 1.06, range.high * 1.06);
  for (std::size_t i = 0; i < plot.x_ticks.size(); ++i)
    text += fmt::format("{}'{}' {}", i ? ", " : "", plot.x_ticks[i], plot.x_ticks[i]);
  return text + ")\n";
}

std::string script(const Plot& plot) {
  std::string text = "set terminal svg size 560,350 dynamic enhanced font 'sans-serif,14' linewidth 1\nset encoding utf8\n";
  text += fmt::format("set border 3 lc rgb '#999999'\nset tics nomirror textcolor rgb '{}'\nset grid lt 1 lw 0.7 lc rgb '{}'\n",
                      ink, grid);
  text += fmt::format("unset key\nset xlabel '{}' textcolor rgb '{}'\nset ylabel '{}' textcolor rgb '{}'\n", plot.x_label, ink,
                      plot.y_label, ink);
  text += "set tmargin 1\nset rmargin 2.5\n" + y_axis(plot) + x_axis(plot);
  for (const Mark& mark : plot.marks) {
    text += fmt::format(
        "set arrow from first {0:.9g}, graph 0 to first {0:.9g}, graph 1 nohead dt 2 lw 1 lc rgb '#888888' back\n", mark.x);
    text += fmt::format("set label '{}' at first {:.9g}, graph 0.96 offset 0.6,0 textcolor rgb '#666666' font ',12'\n", mark.text,
                        mark.x);
  }
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    text += fmt::format("$curve{} << END\n", i);
    const Curve& curve = plot.curves[i];
    for (std::size_t at = 0; at < curve.points.size(); ++at) {
      const auto& [x, y] = curve.points[at];
      const double spread = at < curve.spread.size() ? curve.spread[at] : 0;
      text += drawable(plot, x, y) ? fmt::format("{:.9g} {:.9g} {:.9g}\n", x, y, spread) : "\n";
    }
    text += "END\n";
  }
  std::vector<std::string> drawn;  // the bars first, behind the curves; pointintervalbox: without white discs around their points
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    const Curve& curve = plot.curves[i];
    if (curve.spread.empty()) continue;
    drawn.push_back(fmt::format("$curve{} using 1:2:3 with yerrorbars lw 1 pt 0 lc rgb '{}' notitle", i, curve.color));
  }
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    const Curve& curve = plot.curves[i];
    drawn.push_back(fmt::format("$curve{} using 1:2 with {} lw 2 dt {} lc rgb '{}'{} notitle", i,
                                curve.marker ? "linespoints" : "lines", curve.dash, curve.color,
                                curve.marker ? fmt::format(" pt {} ps 0.7", curve.marker) : ""));
  }
  return fmt::format("{}set pointintervalbox 0\nplot {}\n", text, fmt::join(drawn, ", "));
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code failure;
    const fs::path parent = fs::temp_directory_path(failure);
    std::string pattern = (failure ? fs::path("/tmp") : parent) / "longwave-report-XXXXXX";
    if (!mkdtemp(pattern.data())) throw system_error("mkdtemp", pattern, errno, __FILE__, __LINE__);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // what cannot be removed from a temporary folder is no reason to fail
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// gnuplot's wait status, or throws when it does not start or does not end.
int run_gnuplot(const TemporaryFolder& folder) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string output = folder.file("plot.svg"), errors = folder.file("errors.txt"), input = folder.file("plot.gp");
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  // -d: a user's ~/.gnuplot must not change the plots.
  std::string arguments[] = {"gnuplot", "-d", input};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  pid_t process = 0;
  const int failure = posix_spawnp(&process, "gnuplot", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT) throw io_error("gnuplot is not installed; install Debian's gnuplot-nox");
  if (failure != 0) throw system_error("posix_spawn", "gnuplot", failure, __FILE__, __LINE__);

  const auto deadline = steady_clock::now() + patience;
  for (int status = 0;;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process) return status;
    if (ended < 0 && errno != EINTR) throw system_error("waitpid", "gnuplot", errno, __FILE__, __LINE__);
    if (steady_clock::now() > deadline) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      throw io_error("gnuplot took more than {} seconds", patience.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

void remove_elements(std::string& text, const std::string& tag) {
  const std::string open = "<" + tag + ">", close = "</" + tag + ">";
  for (std::size_t begin; (begin = text.find(open)) != std::string::npos;) {
    const std::size_t end = text.find(close, begin);
    text.erase(begin, end == std::string::npos ? open.size() : end + close.size() - begin);
  }
}

// Several plots share a page: ids must not meet, and gnuplot's titles would show up as tooltips.
std::string as_element(std::string svg, const std::string& name) {
  const std::size_t begin = svg.find("<svg"), end = svg.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos) throw io_error("gnuplot wrote no SVG");
  svg = svg.substr(begin, end + 6 - begin);
  for (const char* reference : {" id='", " id=\"", "href='#", "url(#"}) replace_all(svg, reference, reference + name + "-");
  remove_elements(svg, "title");
  remove_elements(svg, "desc");
  return svg;
}

}  // namespace

bool Plot::empty() const {
  return std::none_of(curves.begin(), curves.end(), [this](const Curve& curve) {
    return std::any_of(curve.points.begin(), curve.points.end(),
                       [this](const auto& point) { return drawable(*this, point.first, point.second); });
  });
}

std::string draw_svg(const Plot& plot) {
  LONGWAVE_CHECK(!plot.empty(), "plot {}", plot.name);
  const TemporaryFolder folder;
  std::ofstream(folder.file("plot.gp")) << script(plot);
  const int status = run_gnuplot(folder);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::string words = contents(folder.file("errors.txt"));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) throw io_error("gnuplot is not installed; install Debian's gnuplot-nox");
    std::replace(words.begin(), words.end(), '\n', ' ');
    throw io_error("gnuplot failed: {}", words.empty() ? "it was killed" : words);
  }
  return as_element(contents(folder.file("plot.svg")), plot.name);
}

}  // namespace longwave
