// A line on the terminal that shows how far a long piece of work has come.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/clock.h"

namespace nvllm {

struct ProgressOptions {
    int fd = 2;
    bool shows_counts = false;  // "3 of 7" after the share
    double line_every_s = 0.0;  // where `fd` is no terminal: a line so often; 0: never
};

// On a terminal, draws at most ten times a second, and the line is gone when the object is. Not
// thread-safe.
class Progress {
  public:
    // `total` in the units of update(); `clock` must outlive the object.
    Progress(std::string label, uint64_t total, const Clock& clock, ProgressOptions options = {});
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void update(uint64_t done);

    // "Loading  42 %  3 s left", or with counts "Loading  42 %  3 of 7  3 s left"; the time left is
    // told once there is a second to judge by.
    static std::string line(const std::string& label, uint64_t done, uint64_t total,
                            double elapsed_s, bool shows_counts = false);

  private:
    void draw(const std::string& text) const;

    std::string label_;
    uint64_t total_;
    const Clock& clock_;
    ProgressOptions options_;
    bool is_terminal_;
    double start_s_;
    double next_draw_s_;
    bool is_drawn_ = false;  // on a terminal
};

}  // namespace nvllm
