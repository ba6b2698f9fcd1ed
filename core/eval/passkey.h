// Passkey retrieval by length and depth: does the model repeat a five-digit key that stood somewhere in its context?
// Greedy decoding gives the right key exactly when, in one forward pass over the prompt with the true key appended, the
// argmax before every token of the key is that token; so one pass an answer is enough.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/data/passkey.h"

namespace longwave {

struct PasskeyOptions {
  std::vector<std::int64_t> lengths;  // tokens of a prompt, key included
  std::vector<double> depths;         // 0 the first of the filler, 1 the last
  std::int64_t trials = 20;           // fresh prompts a cell; 0: no cells
  std::uint64_t seed = 1;
};

struct Interval {
  double low = 0;
  double high = 1;
};

// Wilson's score interval (1927) of a binomial share at 95 %: good for few trials and at 0 or 1.
Interval wilson_interval(std::int64_t successes, std::int64_t trials);

struct PasskeyResult {
  std::int64_t length = 0;
  double depth = 0;
  std::int64_t correct = 0;  // prompts whose whole key was right
  std::int64_t trials = 0;
  Interval interval;         // of correct / trials
  double digits = 0;         // share of the key's tokens that were right; chance is 0.1 where a token is a digit
};

class PasskeySums {
 public:
  // A length too short for a prompt of `maker` is left out with a note; all of them when it can spell none.
  PasskeySums(const PasskeyOptions& options, const PasskeyMaker& maker);

  struct Cell {
    std::int64_t length = 0;
    double depth = 0;
    RandomKey key;  // of its prompts: they do not depend on which other cells there are
  };
  const std::vector<Cell>& cells() const { return cells_; }  // depths of the first length, of the second, ...
  std::int64_t trials() const { return trials_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // argmax[i]: the most probable token after tokens [0, i] of the prompt.
  void add_prompt(std::size_t cell, const PasskeyPrompt& prompt, const std::int32_t* argmax);

  // All sums, to be added element by element over the ranks that shared the prompts (each prompt counted once).
  std::vector<double>& flat() { return flat_; }
  // After every prompt has been added. Throws a bug when one is missing or was counted twice.
  std::vector<PasskeyResult> results() const;

 private:
  std::vector<Cell> cells_;
  std::int64_t trials_;
  std::vector<std::string> notes_;
  std::vector<double> flat_;  // per cell: prompts, whole keys right, tokens right, tokens
};

// eval/passkey.json: {"cells": [{"length", "depth", "correct", "trials", "low", "high", "digits"}]}
std::string passkey_json(const std::vector<PasskeyResult>& results);
// eval/passkey.csv: the same, one line a cell.
std::string passkey_csv(const std::vector<PasskeyResult>& results);

}  // namespace longwave
