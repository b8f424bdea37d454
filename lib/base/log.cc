// Formatting log lines and writing them to the standard error.
#include "lib/base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>

#include "lib/base/json.h"

namespace nvllm {
namespace {

std::atomic<LogLevel> log_level{LogLevel::info};
std::atomic<LogFormat> log_format{LogFormat::text};
std::atomic<uint64_t> lines_dropped{0};

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

std::string text_line(const LevelRow& level, std::string_view message) {
    const bool coloured = level.colour[0] != '\0' && uses_colour();
    return fmt::format("{} {}{}{} {}\n", timestamp(), coloured ? level.colour : "", level.name,
                       coloured ? "\033[0m" : "", escaped(message));
}

std::string json_line(const LevelRow& level, std::string_view message) {
    return fmt::format("{{\"time\": \"{}\", \"level\": \"{}\", \"message\": {}}}\n", timestamp(),
                       level.name, json_quoted(message));
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
    return level == LogLevel::off ? "off" : kLevels[static_cast<size_t>(level)].name;
}

void configure_log(const LogOptions& options) {
    log_level = options.level;
    log_format = options.format;
}

bool log_enabled(LogLevel level) { return level != LogLevel::off && level >= log_level.load(); }

void log_message(LogLevel level, std::string_view message) {
    if (!log_enabled(level)) return;
    const LevelRow& row = kLevels[static_cast<size_t>(level)];
    const std::string line =
        log_format == LogFormat::json ? json_line(row, message) : text_line(row, message);
    // A failed write has nowhere else to be reported.
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written != static_cast<ssize_t>(line.size())) ++lines_dropped;
}

uint64_t log_lines_dropped() { return lines_dropped; }

}  // namespace nvllm
