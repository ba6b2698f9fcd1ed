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

std::string round_number(double value) {
  return value >= 1e6 || value < 1e-3 ? fmt::format("{:.0e}", value) : fmt::format("{:.{}g}", value, value >= 10 ? 7 : 3);
}

// Between the decades a log axis has labels at as many round numbers as it takes to read it.
std::string log_ticks(Range range) {
  const std::vector<std::vector<double>> choices = {{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 7}};
  std::string best;
  for (const auto& steps : choices) {
    std::string ticks;
    int count = 0;
    for (int decade = static_cast<int>(std::floor(std::log10(range.low))); std::pow(10, decade) <= range.high; ++decade) {
      for (const double step : steps) {
        const double value = step * std::pow(10, decade);
        if (value < range.low || value > range.high) continue;
        ticks += fmt::format("{}'{}' {:.9g}", count++ ? ", " : "", round_number(value), value);
      }
    }
    best = ticks;
    if (count >= 4) break;
  }
  return best;
}

std::string y_axis(const Plot& plot) {
  Range range = value_range(plot, true);
  if (plot.y_log) {
    const double margin = std::max(1.05, std::pow(range.high / range.low, 0.06));
    range = {range.low / margin, range.high * margin};
    const std::string ticks = log_ticks(range);
    return fmt::format("set logscale y\nset yrange [{:.9g}:{:.9g}]\nunset mytics\n", range.low, range.high) +
           (ticks.empty() ? "" : "set ytics (" + ticks + ")\n");
  }
  if (plot.y_percent) return "set yrange [-0.02:1.02]\nset ytics ('0%%' 0, '25%%' .25, '50%%' .5, '75%%' .75, '100%%' 1)\n";
  const double span = std::max(range.high - range.low, 1e-3 * std::max(1.0, std::abs(range.high)));
  return fmt::format("set yrange [{:.9g}:{:.9g}]\n", plot.y_from_zero ? 0 : range.low - 0.05 * span, range.high + 0.07 * span);
}

std::string x_axis(const Plot& plot) {
  std::string text;
  if (plot.x_log) {
    // A little more than the data, or the first and last ticks may be lost to rounding.
    const Range range = value_range(plot, false);
    text += fmt::format("set logscale x 2\nset xrange [{:.9g}:{:.9g}]\n", range.low / 1.06, range.high * 1.06);
  }
  if (!plot.x_ticks.empty()) {
    text += "set xtics (";
    for (std::size_t i = 0; i < plot.x_ticks.size(); ++i) {
      text += fmt::format("{}\"{}\" {:.9g}", i ? ", " : "", plot.x_ticks[i].second, plot.x_ticks[i].first);
    }
    text += ")\n";
  }
  return text;
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
    for (const auto& [x, y] : plot.curves[i].points) text += drawable(plot, x, y) ? fmt::format("{:.9g} {:.9g}\n", x, y) : "\n";
    text += "END\n";
  }
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    const Curve& curve = plot.curves[i];
    text += fmt::format("{} $curve{} using 1:2 with {} lw 2 dt {} lc rgb '{}'{} notitle", i ? "," : "plot", i,
                        curve.marker ? "linespoints" : "lines", curve.dash, curve.color,
                        curve.marker ? fmt::format(" pt {} ps 0.7", curve.marker) : "");
  }
  return text + "\n";
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
