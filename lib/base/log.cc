// Formatting log lines and writing them to the standard error.
#include "lib/base/log.h"

#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>

#include "lib/base/json.h"

namespace nvllm {
namespace {

std::atomic<LogLevel> log_level{LogLevel::info};
std::atomic<LogFormat> log_format{LogFormat::text};
std::atomic<bool> waits_for_reader{true};
std::atomic<uint64_t> lines_dropped{0};

// A reader that is at work takes a piece of a long line in less.
constexpr int kPieceMs = 5;

struct LevelRow {
    const char* name;
    const char* colour;  // ANSI
};
constexpr std::array<LevelRow, 4> kLevels = {{
    {"debug", "\033[2m"},
    {"info", ""},
    {"warning", "\033[33m"},
    {"error", "\033[31m"},
}};

bool uses_colour() {
    const char* no_colour = std::getenv("NO_COLOR");
    if (no_colour != nullptr && no_colour[0] != '\0') return false;
    return ::isatty(STDERR_FILENO) == 1;
}

// "2026-01-31T12:00:00.123Z"
std::string timestamp() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms % 1000);
}

// What a message quotes may come from a request: it must not forge further lines or steer the
// terminal.
std::string escaped(std::string_view message) {
    std::string text;
    for (const char letter : message) {
        const auto byte = static_cast<unsigned char>(letter);
        if (byte >= 0x20 && byte != 0x7f) {
            text.push_back(letter);
        } else {
            text += fmt::format("\\x{:02x}", byte);
        }
    }
    return text;
}

std::string json_value(const LogField& field) {
    if (const auto* text = std::get_if<std::string>(&field.value)) return json_quoted(*text);
    if (const auto* count = std::get_if<int64_t>(&field.value)) return fmt::format("{}", *count);
    return json_number(std::get<double>(field.value));
}

// A text of one word stands as it is.
std::string text_value(const LogField& field) {
    const auto* text = std::get_if<std::string>(&field.value);
    const bool is_word =
        text != nullptr && !text->empty() && text->find_first_of(" \"=\\") == std::string::npos;
    return is_word ? *text : json_value(field);
}

std::string text_line(const LevelRow& level, std::string_view message,
                      std::span<const LogField> fields) {
    const bool coloured = level.colour[0] != '\0' && uses_colour();
    std::string all(message);
    for (const LogField& field : fields) {
        if (!field.is_in_message) all += fmt::format(" {}={}", field.name, text_value(field));
    }
    return fmt::format("{} {}{}{} {}\n", timestamp(), coloured ? level.colour : "", level.name,
                       coloured ? "\033[0m" : "", escaped(all));
}

std::string json_line(const LevelRow& level, std::string_view message,
                      std::span<const LogField> fields) {
    std::string more;
    for (const LogField& field : fields) {
        more += fmt::format(", \"{}\": {}", field.name, json_value(field));
    }
    return fmt::format("{{\"time\": \"{}\", \"level\": \"{}\", \"message\": {}{}}}\n", timestamp(),
                       level.name, json_quoted(message), more);
}

bool has_space(int patience_ms) {
    pollfd target{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&target, 1, patience_ms) == 1 && (target.revents & POLLOUT) != 0;
}

// In pieces that a pipe takes whole, each when there is space for it: a write never waits. False
// when not all of it was written; `is_begun` says whether some was.
bool write_pieces(std::string_view line, bool& is_begun) {
    is_begun = false;
    while (!line.empty()) {
        if (!has_space(is_begun ? kPieceMs : 0)) return false;
        const ssize_t written =
            ::write(STDERR_FILENO, line.data(), std::min<size_t>(line.size(), PIPE_BUF));
        if (written <= 0) return false;
        line.remove_prefix(static_cast<size_t>(written));
        is_begun = true;
    }
    return true;
}

bool write_line(std::string_view line) {
    static std::mutex writing;
    static bool is_cut = false;  // the last line has no end
    const std::lock_guard lock(writing);
    if (waits_for_reader) {
        return ::write(STDERR_FILENO, line.data(), line.size()) ==
               static_cast<ssize_t>(line.size());
    }
    bool is_begun = false;
    const bool is_written =
        write_pieces(is_cut ? "\n" + std::string(line) : std::string(line), is_begun);
    if (is_begun) is_cut = !is_written;
    return is_written;
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
    return level == LogLevel::off ? "off" : kLevels[static_cast<size_t>(level)].name;
}

void configure_log(const LogOptions& options) {
    log_level = options.level;
    log_format = options.format;
    waits_for_reader = options.waits_for_reader;
}

bool log_enabled(LogLevel level) { return level != LogLevel::off && level >= log_level.load(); }

void log_message(LogLevel level, std::string_view message) { log_message(level, message, {}); }

void log_message(LogLevel level, std::string_view message, std::span<const LogField> fields) {
    if (!log_enabled(level)) return;
    const LevelRow& row = kLevels[static_cast<size_t>(level)];
    const std::string line = log_format == LogFormat::json ? json_line(row, message, fields)
                                                           : text_line(row, message, fields);
    // A failed write has nowhere else to be reported.
    if (!write_line(line)) ++lines_dropped;
}

void wait_for_log_reader(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    int unread = 0;
    struct stat target {};
    if (::fstat(STDERR_FILENO, &target) != 0 || !S_ISFIFO(target.st_mode)) return;
    while (::ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0) {
        if (std::chrono::steady_clock::now() >= deadline) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

uint64_t log_lines_dropped() { return lines_dropped; }

}  // namespace nvllm
