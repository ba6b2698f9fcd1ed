// The `position:` section: which options there are, and under which kind each has a say.
#include <string>
#include <vector>

#include "jobs/config/schema_sections.h"
#include "jobs/config/setting_types.h"

namespace longwave {
namespace {

const Words<PositionKind> position_kinds = {{"fope", PositionKind::fope},     {"rope", PositionKind::rope},
                                            {"alibi", PositionKind::alibi},   {"nope", PositionKind::nope},
                                            {"p-rope", PositionKind::p_rope}, {"clipped-rope", PositionKind::clipped_rope},
                                            {"yarn", PositionKind::yarn}};

const Words<PositionScaling> position_scalings = {{"none", PositionScaling::none},
                                                  {"pi", PositionScaling::interpolate},
                                                  {"ntk", PositionScaling::ntk},
                                                  {"yarn", PositionScaling::yarn}};

template <PositionKind... kinds>
std::string unless_position(const Config& config) {
  if (((config.position.kind == kinds) || ...)) return "";
  return "position.kind: " + written_word(config.position.kind, position_kinds);
}
constexpr auto for_fope = unless_position<PositionKind::fope>;
constexpr auto for_p_rope = unless_position<PositionKind::p_rope>;
constexpr auto for_clipped_rope = unless_position<PositionKind::clipped_rope>;
constexpr auto for_yarn = unless_position<PositionKind::yarn>;
constexpr auto for_floors = unless_position<PositionKind::fope, PositionKind::clipped_rope>;
constexpr auto for_rotations = unless_position<PositionKind::rope, PositionKind::p_rope, PositionKind::clipped_rope>;
constexpr auto for_frequencies =
    unless_position<PositionKind::fope, PositionKind::rope, PositionKind::p_rope, PositionKind::clipped_rope, PositionKind::yarn>;

// fope-authors and fope-paper have become `fope` with their options by the time this is read.
Setting position_kind() {
  Setting setting = word("position.kind", at(&Config::position, &PositionConfig::kind), position_kinds,
                         "how attention knows positions; fope-authors is fope with identity: step, fope-paper with cap: none "
                         "and zero_phase: 0");
  std::vector<std::string> names = names_of(position_kinds);
  names.insert(names.begin() + 1, {"fope-authors", "fope-paper"});
  setting.type = one_of(names);
  setting.set = [names](Config& config, const Value& value) {
    for (const auto& [name, kind] : position_kinds) {
      if (value.text() == name) {
        config.position.kind = kind;
        return;
      }
    }
    throw value.refuse(fmt::format("{} is not known{}", value.shown(), suggest_word(value.text(), names)));
  };
  return setting;
}

Setting position_cap() {
  return {"position.cap",
          "quarter, none, or an integer, at least 1",
          "",
          "at most head_dim/4 pairs vary, no limit, or so many",
          [](Config& config, const Value& value) {
            PositionConfig& position = config.position;
            const std::string word = value.is_list() || value.is_map() ? "" : value.text();
            if (word == "quarter" || word == "none") {
              position.cap = word == "none" ? PositionCap::none : PositionCap::quarter;
              position.cap_pairs = 0;
              return;
            }
            if (word.empty() || word.find_first_not_of("+-.0123456789eE") != std::string::npos) {
              throw value.refuse(fmt::format("expected quarter, none or an integer, got {}", value.shown()));
            }
            position.cap_pairs = read_number<std::int64_t>(value, {.low = 1, .high = 4096});
            position.cap = PositionCap::pairs;
          },
          [](const Config& config) -> std::string {
            switch (config.position.cap) {
              case PositionCap::quarter:
                return "quarter";
              case PositionCap::none:
                return "none";
              case PositionCap::pairs:
                break;
            }
            return fmt::format("{}", config.position.cap_pairs);
          }};
}

Setting position_scaling() {
  constexpr Range factors{.low = 1, .high = 65536, .zero = "auto"};
  return {"position.scaling",
          "none, pi, ntk, yarn, or {kind, factor}",
          "",
          "stretches the frequencies at evaluation; factor auto is evaluated length / context",
          [=](Config& config, const Value& value) {
            if (!value.is_map()) {
              config.position.scaling = read_word(value, position_scalings);
              config.position.scaling_factor = 0;
              return;
            }
            PositionScaling kind = PositionScaling::none;
            double factor = 0;
            for (const Value& entry : value.entries()) {
              const std::string name = entry.key().substr(value.key().size() + 1);
              if (name == "kind") {
                kind = read_word(entry, position_scalings);
              } else if (name == "factor") {
                factor = read_number<double>(entry, factors);
              } else {
                throw entry.refuse("unknown key" + suggest_word(name, {"kind", "factor"}));
              }
            }
            if (kind == PositionScaling::none) throw value.refuse("a factor needs a kind: pi, ntk or yarn");
            config.position.scaling = kind;
            config.position.scaling_factor = factor;
          },
          [=](const Config& config) {
            const std::string kind = written_word(config.position.scaling, position_scalings);
            if (config.position.scaling_factor == 0) return kind;
            return fmt::format("{{kind: {}, factor: {}}}", kind, config.position.scaling_factor);
          }};
}

}  // namespace

std::vector<Setting> position_settings() {
  using P = PositionConfig;
  return {
      position_kind(),
      only(for_frequencies, number("position.theta", at(&Config::position, &P::theta), {.low = 1, .above_low = true}, "",
                                   "base of the frequencies theta^(-2i/head_dim)")),
      only(for_fope, number("position.gain", at(&Config::position, &P::gain), {.low = 0, .high = 100}, "0.3, or the preset's",
                            "scale of the Fourier coefficients' random part (the paper's sigma)")),
      only(for_floors, number("position.floor_cycles", at(&Config::position, &P::floor_cycles), {.low = 0}, "",
                              "frequencies below so many cycles within context are undertrained; 0 keeps all")),
      only(for_fope, position_cap()),
      only(for_fope, number("position.zero_phase", at(&Config::position, &P::zero_phase), {.low = -100, .high = 100}, "",
                            "sine of the zero-frequency pairs: 1 as the authors' code has it, 0 by the paper's Eq. 13")),
      only(for_fope, word("position.identity", at(&Config::position, &P::identity),
                          {{"first", PositionIdentity::first}, {"step", PositionIdentity::step}},
                          "rows that get the identity when frequencies outnumber pairs: the first, or every ceil(D/d)-th")),
      only(for_fope, word("position.share", at(&Config::position, &P::share),
                          {{"layer", PositionShare::layer}, {"model", PositionShare::model}},
                          "coefficients of each layer's own, or one set for the model")),
      only(for_fope, boolean("position.learnable", at(&Config::position, &P::learnable), "coefficients are trained")),
      only(for_fope, boolean("position.normalize_columns", at(&Config::position, &P::normalize_columns),
                             "coefficient columns scaled to unit L1 norm")),
      only(for_fope, number("position.extra_frequencies", at(&Config::position, &P::extra_frequencies),
                            {.low = 0, .high = 4096}, "", "so many more frequencies in the same range")),
      only(for_fope,
           boolean("position.series", at(&Config::position, &P::series), "false: no Fourier series, identity only")),
      only(for_p_rope,
           number("position.fraction", at(&Config::position, &P::fraction), {.low = 0, .high = 1, .above_low = true}, "",
                  "share of the pairs, from the highest frequency, that rotate")),
      only(for_p_rope, number("position.constant_weight", at(&Config::position, &P::constant_weight), {.low = 0, .high = 100},
                              "", "weight in the logits of the pairs that do not rotate")),
      only(for_clipped_rope,
           number("position.clipped", at(&Config::position, &P::clipped), {.low = 1, .high = 4096, .zero = "auto"}, "",
                  "lowest frequencies that fade out; auto is those below floor_cycles")),
      only(for_yarn, number("position.original_context", at(&Config::position, &P::original_context),
                            {.low = 1, .high = 2147483647, .zero = "none"}, "required by yarn",
                            "training length of the RoPE weights that yarn stretches to context; run.init_from names them")),
      only(for_rotations, position_scaling()),
  };
}

}  // namespace longwave
