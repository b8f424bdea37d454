// What the log writes, and when it writes nothing.
#include "lib/base/log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/lib/base/captured_process.h"

using namespace nvllm;
using nvllm::test::run_captured;

TEST_CASE("text lines, from the level on") {
    const auto result = run_captured([] {
        configure_log({LogLevel::warning, LogFormat::text});
        log_info("not shown");
        log_warning("odd\nforged line \033[2J");
        log_error("bad");
        return log_enabled(LogLevel::info) || !log_enabled(LogLevel::error) ? 1 : 0;
    });
    CHECK(result.exit_code == 0);
    CHECK(result.output.find("not shown") == std::string::npos);
    CHECK(result.output.find("Z warning odd\\x0aforged line \\x1b[2J\n") != std::string::npos);
    CHECK(result.output.find("Z error bad\n") != std::string::npos);
}

TEST_CASE("JSON lines") {
    const auto result = run_captured([] {
        configure_log({LogLevel::debug, LogFormat::json});
        log_debug("a \"quoted\"\nthing \xff");
        return 0;
    });
    const nlohmann::json line = nlohmann::json::parse(result.output);
    CHECK(line["level"] == "debug");
    CHECK(line["message"] == "a \"quoted\"\nthing \xEF\xBF\xBD");
}

TEST_CASE("fields: beside the message in JSON, behind it in text") {
    const LogField fields[] = {{"status", int64_t{200}, true},
                               {"seconds", 0.5},
                               {"key", std::string("alice")},
                               {"odd", std::string("a b=\"\n")},
                               {"empty", std::string()}};
    const auto json = run_captured([&] {
        configure_log({LogLevel::info, LogFormat::json});
        log_message(LogLevel::info, "done", fields);
        return 0;
    });
    const nlohmann::json line = nlohmann::json::parse(json.output);
    CHECK(line["message"] == "done");
    CHECK(line["status"] == 200);
    CHECK(line["seconds"] == 0.5);
    CHECK(line["key"] == "alice");
    CHECK(line["odd"] == "a b=\"\n");
    const auto text = run_captured([&] {
        configure_log({LogLevel::info, LogFormat::text});
        log_message(LogLevel::info, "done", fields);
        return 0;
    });
    CHECK(text.output.find("info done seconds=0.5 key=alice odd=\"a b=\\\"\\n\" empty=\"\"\n") !=
          std::string::npos);
}

TEST_CASE("off, and a closed stderr") {
    CHECK(run_captured([] {
              configure_log({LogLevel::off, LogFormat::text});
              log_error("nothing");
              return 0;
          }).output == "");
    const auto closed = run_captured([] {
        std::signal(SIGPIPE, SIG_IGN);
        ::close(STDERR_FILENO);
        log_error("nobody");
        log_info("nobody either");
        return log_lines_dropped() == 2 ? 5 : 1;
    });
    CHECK(closed.exit_code == 5);
}

TEST_CASE("a reader that stands still is not waited for, and finds whole lines when it goes on") {
    const auto result = run_captured([] {
        int ends[2];
        if (::pipe(ends) != 0) return 9;
        const int reader = ::dup(ends[0]);
        const int real = ::dup(STDERR_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        configure_log({LogLevel::info, LogFormat::text, false});
        const std::string message(1000, 'x');
        for (int i = 0; i < 200; ++i) log_info(message);
        const uint64_t dropped = log_lines_dropped();
        // What fits is there; then there is room again, but not for all of a line this long.
        std::string taken(1 << 20, ' ');
        taken.resize(static_cast<size_t>(::read(reader, taken.data(), taken.size())));
        log_info(std::string(200'000, 'y'));
        const uint64_t cut = log_lines_dropped() - dropped;
        taken.resize(1 << 20);
        taken.resize(static_cast<size_t>(::read(reader, taken.data(), taken.size())));
        log_info("again");
        taken.resize(100);
        taken.resize(static_cast<size_t>(::read(reader, taken.data(), taken.size())));
        ::dup2(real, STDERR_FILENO);
        const bool is_right = dropped > 100 && dropped < 200 && cut == 1 && taken[0] == '\n' &&
                              taken.ends_with("info again\n");
        return is_right ? 5 : 1;
    });
    CHECK(result.exit_code == 5);
}

TEST_CASE("who is asked for many long lines waits for their reader, and no longer than it may") {
    const auto result = run_captured([] {
        int ends[2];
        if (::pipe(ends) != 0) return 9;
        const int real = ::dup(STDERR_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[1]);
        configure_log({LogLevel::info, LogFormat::text, false});
        size_t taken = 0;
        std::thread reader([&] {
            std::string piece(4096, ' ');
            ssize_t bytes = 0;
            while ((bytes = ::read(ends[0], piece.data(), piece.size())) > 0) {
                taken += static_cast<size_t>(bytes);
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        });
        const std::string message(20'000, 'x');
        for (int i = 0; i < 8; ++i) {
            wait_for_log_reader(std::chrono::seconds(60));
            log_info(message);
        }
        ::dup2(real, STDERR_FILENO);  // the last writer: the reader ends
        reader.join();
        const bool is_whole = log_lines_dropped() == 0 && taken > 8 * message.size();

        if (::pipe(ends) != 0) return 9;
        ::dup2(ends[1], STDERR_FILENO);
        log_info("nobody reads this");
        wait_for_log_reader(std::chrono::milliseconds(1));
        ::dup2(real, STDERR_FILENO);
        return is_whole ? 5 : 1;
    });
    CHECK(result.exit_code == 5);
}
