// Drawing the progress line.
#include "lib/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace nvllm {
namespace {

constexpr double kDrawInterval_s = 0.1;
constexpr double kSilent_s = 0.2;  // short work shows nothing
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(std::string label, uint64_t total, const Clock& clock, int fd)
    : label_(std::move(label)),
      total_(total),
      clock_(clock),
      fd_(fd),
      is_terminal_(::isatty(fd) == 1),
      start_s_(clock.now_s()),
      next_draw_s_(start_s_ + kSilent_s) {}

Progress::~Progress() {
    if (is_drawn_) draw(kClearLine);
}

void Progress::update(uint64_t done) {
    if (!is_terminal_) return;
    const double now_s = clock_.now_s();
    if (now_s < next_draw_s_) return;
    next_draw_s_ = now_s + kDrawInterval_s;
    is_drawn_ = true;
    draw(kClearLine + line(label_, done, total_, now_s - start_s_));
}

std::string Progress::line(const std::string& label, uint64_t done, uint64_t total,
                           double elapsed_s) {
    const double share =
        total == 0 ? 1.0 : static_cast<double>(std::min(done, total)) / static_cast<double>(total);
    std::string text = fmt::format("{}  {} %", label, static_cast<int>(100.0 * share));
    if (elapsed_s >= 1.0 && share > 0.0 && share < 1.0) {
        text += fmt::format("  {:.0f} s left", elapsed_s * (1.0 - share) / share);
    }
    return text;
}

void Progress::draw(const std::string& text) const {
    // A line that cannot be drawn is not worth an error.
    [[maybe_unused]] const ssize_t written = ::write(fd_, text.data(), text.size());
}

}  // namespace nvllm
