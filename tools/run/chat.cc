// The chat loop, its commands and its line editor.
#include "tools/run/chat.h"

#include <fmt/format.h>
#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>

#include "lib/base/main_guard.h"
#include "lib/text/chat/message_form.h"

namespace nvllm::run {
namespace {

constexpr const char* kPrompt = "> ";

constexpr const char* kHelp =
    "  /help         this list\n"
    "  /clear        forget the conversation\n"
    "  /save FILE    write the conversation to FILE as JSON\n"
    "  /exit         leave (also Ctrl-D)\n"
    "Ctrl-C stops an answer.\n";

// libedit behind one call: a line of input, with history.
class LineEditor {
  public:
    LineEditor() : editor_(el_init("nvllm-run", stdin, stdout, stderr)), history_(history_init()) {
        if (editor_ == nullptr || history_ == nullptr) {
            throw Error(ErrorKind::unavailable, "the terminal cannot be used for line editing");
        }
        HistEvent event;
        history(history_, &event, H_SETSIZE, 1000);
        el_set(editor_, EL_PROMPT, &LineEditor::prompt);
        el_set(editor_, EL_EDITOR, "emacs");
        el_set(editor_, EL_HIST, history, history_);
    }
    ~LineEditor() {
        if (history_ != nullptr) history_end(history_);
        if (editor_ != nullptr) el_end(editor_);
    }
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    // The next line without its end; nothing at the end of input or when a signal came.
    std::optional<std::string> read() {
        int length = 0;
        const char* text = el_gets(editor_, &length);
        if (text == nullptr || length <= 0) return std::nullopt;
        std::string line(text, static_cast<size_t>(length));
        while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
        if (!line.empty()) {
            HistEvent event;
            history(history_, &event, H_ENTER, line.c_str());
        }
        return line;
    }

  private:
    static char* prompt(EditLine*) { return const_cast<char*>(kPrompt); }

    EditLine* editor_;
    History* history_;
};

// What the engine thread hands over, piece by piece.
class Stream {
  public:
    OutputListener listener() {
        return [this](RequestOutput&& output) {
            const std::lock_guard lock(mutex_);
            for (const ContinuationOutput& part : output.continuations) {
                text_ += part.text;
                num_tokens_ = part.num_generated_tokens;
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
    const std::optional<Fault>& fault() const { return fault_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string text_;
    RequestOutput last_;
    std::optional<Fault> fault_;
    int32_t num_tokens_ = 0;
};

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
        stream << messages_in_form(messages_, {}).dump(2) << "\n";
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
        const RequestId id = engine_.submit(std::move(request), stream.listener());
        std::string all;
        bool finished = false;
        bool cancelled = false;
        while (!finished) {
            const std::string piece = stream.next(finished);
            std::fwrite(piece.data(), 1, piece.size(), stdout);
            std::fflush(stdout);
            all += piece;
            if (stop_signal() && !cancelled) {
                engine_.cancel(id);
                cancelled = true;
            }
        }
        if (stop_signal() == SIGINT) forget_stop_signal();
        std::fputc('\n', stdout);
        if (stream.fault()) fmt::print(stderr, "{}\n", stream.fault()->message);
        if (options_.show_timings) print_timings(stream.last(), stream.num_tokens());
        return all;
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

// True when the line was a command; `leave` is set by /exit.
bool run_command(const std::string& line, Conversation& conversation, bool& leave) {
    if (line.empty() || line[0] != '/') return false;
    if (line == "/help") {
        std::fputs(kHelp, stderr);
    } else if (line == "/clear") {
        conversation.clear();
        std::fputs("the conversation is forgotten\n", stderr);
    } else if (line.rfind("/save ", 0) == 0) {
        conversation.save(line.substr(6));
    } else if (line == "/exit") {
        leave = true;
    } else {
        fmt::print(stderr, "unknown command {}\n{}", line, kHelp);
    }
    return true;
}

// The line editor counts in characters: it needs to know that the terminal speaks UTF-8.
void use_utf8() {
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX < 2) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

void chat(Engine& engine, const ChatOptions& options) {
    const auto rendered = engine.input_processor().conversations().render(
        {.messages = {{.role = "user", .content = "Hello"}}});
    if (!rendered) throw Error(rendered.fault().kind, rendered.fault().message);
    use_utf8();
    LineEditor editor;
    Conversation conversation(engine, options);
    std::fputs("Ctrl-C stops an answer, Ctrl-D leaves, /help lists commands.\n", stderr);
    for (bool leave = false; !leave;) {
        const std::optional<std::string> line = editor.read();
        if (!line && stop_signal() != SIGINT) {
            std::fputc('\n', stdout);
            return;
        }
        if (!line) {  // Ctrl-C clears the line
            forget_stop_signal();
            std::fputc('\n', stdout);
            continue;
        }
        if (line->empty() || run_command(*line, conversation, leave)) continue;
        conversation.say(*line);
    }
}

}  // namespace nvllm::run
