// Drawing the progress line.
#include "lib/cli/progress.h"

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

Progress::Progress(std::string label, uint64_t total, const Clock& clock, ProgressOptions options)
    : label_(std::move(label)),
      total_(total),
      clock_(clock),
      options_(options),
      is_terminal_(::isatty(options.fd) == 1),
      start_s_(clock.now_s()),
      next_draw_s_(start_s_ + (is_terminal_ ? kSilent_s : options.line_every_s)) {}

Progress::~Progress() {
    if (is_drawn_) draw(kClearLine);
}

void Progress::update(uint64_t done) {
    if (!is_terminal_ && options_.line_every_s <= 0.0) return;
    const double now_s = clock_.now_s();
    if (now_s < next_draw_s_) return;
    next_draw_s_ = now_s + (is_terminal_ ? kDrawInterval_s : options_.line_every_s);
    is_drawn_ = is_terminal_;
    const std::string text = line(label_, done, total_, now_s - start_s_, options_.shows_counts);
    draw(is_terminal_ ? kClearLine + text : text + "\n");
}

std::string Progress::line(const std::string& label, uint64_t done, uint64_t total,
                           double elapsed_s, bool shows_counts) {
    const double share =
        total == 0 ? 1.0 : static_cast<double>(std::min(done, total)) / static_cast<double>(total);
    std::string text = fmt::format("{}  {} %", label, static_cast<int>(100.0 * share));
    if (shows_counts) text += fmt::format("  {} of {}", done, total);
    if (elapsed_s >= 1.0 && share > 0.0 && share < 1.0) {
        const double left_s = elapsed_s * (1.0 - share) / share;
        text += left_s < 120.0 ? fmt::format("  {:.0f} s left", left_s)
                               : fmt::format("  {:.0f} min left", left_s / 60.0);
    }
    return text;
}

void Progress::draw(const std::string& text) const {
    // A line that cannot be drawn is not worth an error.
    [[maybe_unused]] const ssize_t written = ::write(options_.fd, text.data(), text.size());
}

}  // namespace nvllm
