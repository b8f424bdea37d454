// A line on the terminal that shows how far a long piece of work has come.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/clock.h"

namespace nvllm {

// Draws on file descriptor `fd` at most ten times a second, and only when it is a terminal; the
// line is gone when the object is. Not thread-safe.
class Progress {
  public:
    // `total` in the units of update(); `clock` must outlive the object.
    Progress(std::string label, uint64_t total, const Clock& clock, int fd = 2);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void update(uint64_t done);

    // "Loading  42 %  3 s left"; the time left is told once there is a second to judge by.
    static std::string line(const std::string& label, uint64_t done, uint64_t total,
                            double elapsed_s);

  private:
    void draw(const std::string& text) const;

    std::string label_;
    uint64_t total_;
    const Clock& clock_;
    int fd_;
    bool is_terminal_;
    double start_s_;
    double next_draw_s_;
    bool is_drawn_ = false;
};

}  // namespace nvllm
