// Numbers as people read them. What was not measured is a dash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longwave {

std::string show_integer(double value);      // 12,345
std::string show_count(double value);        // 3.2 M, 524 k, 1.24 G
std::string show_loss(double nats);          // 1.593
std::string show_perplexity(double value);   // 4.87, 25.1, 1,340, 2.1e+07
std::string show_percent(double share);      // 85%
std::string show_duration(double seconds);   // 42 s, 4 min 12 s, 1 h 03 min
std::string show_multiple(double multiple);  // ½×, 1×, 2×, 1.5×

// "a", "a and b", "a, b and c".
std::string join_words(const std::vector<std::string>& words);

}  // namespace longwave
