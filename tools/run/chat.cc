// The chat loop and its commands.
#include "tools/run/chat.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/chat/message_form.h"
#include "lib/cli/main_guard.h"
#include "lib/cli/terminal_text.h"
#include "lib/engine/input_processor.h"
#include "tools/run/line_editor.h"
#include "tools/run/terminal.h"

namespace nvllm::run {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kPromptInside = "... ";  // of a message of several lines
constexpr std::string_view kBlockMark = "\"\"\"";

constexpr const char* kHelp =
    "  /help         this list\n"
    "  /clear        forget the conversation\n"
    "  /save FILE    write the conversation to FILE as JSON\n"
    "  /exit         leave (also Ctrl-D)\n"
    "Ctrl-C stops an answer.\n"
    "Several lines: paste them, end a line with \\, type Alt+Enter, or put them between \"\"\" and "
    "\"\"\".\n";

// What the engine thread hands over, piece by piece.
class Stream {
  public:
    OutputListener listener() {
        return [this](RequestOutput&& output) {
            const std::lock_guard lock(mutex_);
            for (const ContinuationOutput& part : output.continuations) {
                text_ += part.text;
                num_tokens_ = part.num_generated_tokens;
                if (part.finish_reason) finish_ = part.finish_reason;
                if (part.fault) fault_ = part.fault;
            }
            last_ = std::move(output);
            changed_.notify_one();
        };
    }

    // New text since the last call; waits a moment for it. `finished` is set with the last piece.
    std::string next(bool& finished) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::milliseconds(50),
                          [&] { return !text_.empty() || last_.finished; });
        finished = last_.finished;
        return std::exchange(text_, {});
    }
    // Once finished.
    const RequestOutput& last() const { return last_; }
    int32_t num_tokens() const { return num_tokens_; }
    std::optional<FinishReason> finish() const { return finish_; }
    const std::optional<Fault>& fault() const { return fault_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string text_;
    RequestOutput last_;
    std::optional<FinishReason> finish_;
    std::optional<Fault> fault_;
    int32_t num_tokens_ = 0;
};

// Where standard output goes through another program to the terminal (`| tee log`), that one has
// shown the answer before anything else is: as far as can be known, which is that it read it.
void wait_for_reader() {
    constexpr int kMaxLooks = 20;
    constexpr std::chrono::milliseconds kPause{5};
    if (::isatty(STDOUT_FILENO) != 0) return;
    int unread = 0;
    for (int i = 0; i < kMaxLooks; ++i) {
        if (::ioctl(STDOUT_FILENO, FIONREAD, &unread) != 0) return;
        std::this_thread::sleep_for(kPause);
        if (unread == 0) return;
    }
}

class Conversation {
  public:
    Conversation(Engine& engine, const ChatOptions& options) : engine_(engine), options_(options) {
        clear();
    }

    void clear() {
        messages_.clear();
        if (options_.system_prompt) {
            messages_.push_back({.role = "system", .content = *options_.system_prompt});
        }
    }

    void save(const std::string& file) const {
        std::ofstream stream(file);
        const auto json = messages_in_form(messages_, {});
        stream << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
        stream.close();
        if (!stream) {
            fmt::print(stderr, "{}: cannot be written\n", file);
        } else {
            fmt::print(stderr, "saved {} messages to {}\n", messages_.size(), file);
        }
    }

    // Sends what the user said and prints the answer as it comes. A fault leaves the conversation
    // as it was.
    void say(const std::string& text) {
        messages_.push_back({.role = "user", .content = text});
        RequestInput input;
        input.sampling = options_.sampling;
        input.grammar = options_.grammar;
        input.adapter = options_.adapter;
        input.allow_special_in_messages = options_.allow_special_in_messages;
        input.prompt =
            std::make_shared<const nvllm::Conversation>(nvllm::Conversation{.messages = messages_});
        auto request = engine_.prepare(input);
        if (!request) {
            fmt::print(stderr, "{}\n(/clear starts anew)\n", request.fault().message);
            messages_.pop_back();
            return;
        }
        messages_.push_back({.role = "assistant", .content = answer(std::move(*request))});
    }

  private:
    std::string answer(Request request) {
        Stream stream;
        std::string text;
        {
            QuietTerminal terminal;
            const RequestId id = engine_.submit(std::move(request), stream.listener());
            try {
                text = show(stream, id, terminal);
            } catch (...) {
                engine_.stop();  // its listener writes into the stream
                throw;
            }
        }
        if (stop_signal() == SIGINT) forget_stop_signal();
        wait_for_reader();
        if (stream.fault()) fmt::print(stderr, "{}\n", stream.fault()->message);
        print_cut(stream);
        if (options_.show_timings) print_timings(stream.last(), stream.num_tokens());
        return text;
    }

    // Prints the answer while it comes and returns it. Throws BrokenPipe, io.
    std::string show(Stream& stream, RequestId id, QuietTerminal& terminal) {
        const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
        TerminalText harmless;
        std::string all;
        bool finished = false;
        bool cancelled = false;
        while (!finished) {
            const std::string piece = stream.next(finished);
            write_output(is_terminal ? harmless.shown(piece) : piece);
            all += piece;
            terminal.heed_signals();
            if (stop_signal() && !cancelled) {
                engine_.cancel(id);
                cancelled = true;
            }
        }
        write_output(harmless.rest() + "\n");
        return all;
    }

    // Why the answer ends where it does, when it was not the model that ended it.
    void print_cut(const Stream& stream) const {
        if (stream.finish() != FinishReason::length) return;
        const auto& most = options_.sampling.max_tokens;
        if (most && stream.num_tokens() >= *most) {
            fmt::print(stderr, "[cut off after {} tokens: a larger -n allows more]\n", *most);
        } else {
            fmt::print(stderr, "[cut off: the context of {} tokens is full; /clear starts anew]\n",
                       engine_.memory_plan().max_model_len);
        }
    }

    static void print_timings(const RequestOutput& output, int32_t num_tokens) {
        const double finished_s = output.times.finished_s.value_or(output.times.arrival_s);
        const double first_s = output.times.first_token_s.value_or(finished_s);
        const double rest_s = finished_s - first_s;
        fmt::print(
            stderr,
            "[{} prompt tokens ({} cached), {:.0f} ms to the first; {} tokens, {:.1f} a second]\n",
            output.num_prompt_tokens, output.num_cached_tokens,
            (first_s - output.times.arrival_s) * 1000.0, num_tokens,
            rest_s > 0.0 ? (num_tokens - 1) / rest_s : 0.0);
    }

    Engine& engine_;
    const ChatOptions& options_;
    std::vector<ChatMessage> messages_;
};

// A line that ends in a backslash goes on with the next one; two of them are a text's own.
bool goes_on(const std::string& text) {
    const size_t last = text.find_last_not_of('\\');
    const size_t kept = last == std::string::npos ? 0 : last + 1;
    return (text.size() - kept) % 2 == 1;
}

std::optional<std::string> read_continued(LineEditor& editor, std::string text) {
    while (goes_on(text)) {
        text.pop_back();
        const std::optional<std::string> line = editor.read(kPromptInside);
        if (!line) return std::nullopt;
        text += "\n" + *line;
    }
    return text;
}

// The lines between the marks; newlines beside a mark are no part of the text.
std::optional<std::string> read_block(LineEditor& editor, std::string text) {
    while (!text.ends_with(kBlockMark)) {
        const std::optional<std::string> line = editor.read(kPromptInside);
        if (!line) return std::nullopt;
        text += "\n" + *line;
    }
    text.resize(text.size() - kBlockMark.size());
    if (text.starts_with('\n')) text.erase(0, 1);
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

// What the user says, of one or several lines; nothing as LineEditor::read.
std::optional<std::string> read_message(LineEditor& editor) {
    const std::optional<std::string> line = editor.read(kPrompt);
    if (!line) return std::nullopt;
    std::optional<std::string> message = line->starts_with(kBlockMark)
                                             ? read_block(editor, line->substr(kBlockMark.size()))
                                             : read_continued(editor, *line);
    if (message && !message->empty()) editor.remember(*message);
    return message;
}

// True when the message was a command; `leave` is set by /exit.
bool run_command(const std::string& message, Conversation& conversation, bool& leave) {
    if (!message.starts_with('/') || message.find('\n') != std::string::npos) return false;
    if (message == "/help") {
        std::fputs(kHelp, stderr);
    } else if (message == "/clear") {
        conversation.clear();
        std::fputs("the conversation is forgotten\n", stderr);
    } else if (message.starts_with("/save ")) {
        conversation.save(message.substr(6));
    } else if (message == "/exit") {
        leave = true;
    } else {
        fmt::print(stderr, "unknown command {}\n{}", shown_on_terminal(message), kHelp);
    }
    return true;
}

// The words of two answers would stand between one another, and which is the conversation's?
void require_one_answer(const SamplingParams& sampling) {
    if (sampling.n == 1) return;
    throw Error(ErrorKind::usage,
                fmt::format("--n {}: a chat has one answer to each message; leave --n out, or ask "
                            "with -p or --input-format jsonl",
                            sampling.n));
}

// The line editor counts in characters: it needs to know that the terminal speaks UTF-8.
void use_utf8() {
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX < 2) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

int chat(Engine& engine, const ChatOptions& options) {
    require_one_answer(options.sampling);
    const auto rendered = engine.input_processor().conversations().render(
        {.messages = {{.role = "user", .content = "Hello"}}});
    if (!rendered) throw Error(rendered.fault().kind, rendered.fault().message);
    use_utf8();
    const TerminalSignals signals;
    LineEditor editor;
    Conversation conversation(engine, options);
    std::fputs("Ctrl-C stops an answer, Ctrl-D leaves, /help lists commands.\n", stderr);
    for (bool leave = false; !leave;) {
        const std::optional<std::string> message = read_message(editor);
        if (message) {
            if (message->empty() || run_command(*message, conversation, leave)) continue;
            conversation.say(*message);
            continue;
        }
        std::fputc('\n', editor.screen());
        if (stop_signal() != SIGINT) break;
        forget_stop_signal();  // Ctrl-C clears what is being typed
    }
    const auto signal = stop_signal();
    return signal ? exit_code_for_signal(*signal) : 0;
}

}  // namespace nvllm::run
