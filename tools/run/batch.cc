// Reads prompts, submits them as long as the reader of the answers keeps up, and waits for the
// last.
#include "tools/run/batch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

#include "lib/base/error_kinds.h"
#include "lib/base/file.h"
#include "lib/base/line_reader.h"
#include "lib/chat/chat_message.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/input_processor.h"
#include "tools/run/answers.h"
#include "tools/run/inspect_dump.h"
#include "tools/run/step_log.h"

namespace nvllm::run {
namespace {

// Prompts that may wait for their turn: enough to keep the batch full, few enough to read a file of
// any length.
constexpr size_t kMaxOpenAnswers = 4096;

OutputFormat output_format(const std::string& name) {
    if (name == "json") return OutputFormat::json;
    return name == "jsonl" ? OutputFormat::jsonl : OutputFormat::text;
}

std::vector<int32_t> parse_ids(const std::string& text) {
    std::vector<int32_t> ids;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const auto id = parse_integer<int32_t>(text.substr(begin, end - begin));
        if (!id) {
            throw Error(
                ErrorKind::usage,
                fmt::format("--prompt-ids: '{}' is not a list of token ids such as 1,15043,2",
                            text));
        }
        ids.push_back(*id);
        begin = end + 1;
    }
    return ids;
}

// An open file, or standard input for "-".
class Source {
  public:
    explicit Source(const std::filesystem::path& path)
        : name_(path == "-" ? "standard input" : path.string()),
          descriptor_(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (descriptor_ >= 0) return;
        throw Error(errno == ENOENT ? ErrorKind::not_found : ErrorKind::io,
                    fmt::format("{}: cannot open: {}", name_, std::strerror(errno)));
    }
    ~Source() {
        if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
    }
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    LineReader reader() const { return LineReader(descriptor_, name_); }
    const std::string& name() const { return name_; }

  private:
    std::string name_;
    int descriptor_;
};

// Whether something waits in a pipe at standard input; a file or a terminal there may be meant for
// others.
bool has_waiting_pipe() {
    struct stat status {};
    int num_bytes = 0;
    return ::fstat(STDIN_FILENO, &status) == 0 && S_ISFIFO(status.st_mode) &&
           ::ioctl(STDIN_FILENO, FIONREAD, &num_bytes) == 0 && num_bytes > 0;
}

std::string without_byte_order_mark(std::string text) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

// A text file's last line has an end, which is nothing of what it says.
std::string without_last_end(std::string text) {
    if (text.ends_with('\n')) text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
    return text;
}

class Batch {
  public:
    Batch(Engine& engine, const RunOptions& options, const AnswerDefaults& answers)
        : engine_(engine),
          options_(options),
          answers_(answers),
          printer_(engine, output_format(options.output_format), stdout) {}
    // Output without a reader is not worth computing, and no listener may outlive the
    // printer.
    ~Batch() { engine_.stop(); }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    // Everything that was named is opened and read as ids before the first prompt is answered.
    void read_all() {
        std::deque<Source> sources;
        for (const std::filesystem::path& file : options_.files) sources.emplace_back(file);
        std::vector<std::vector<int32_t>> id_prompts;
        for (const std::string& ids : options_.prompt_ids) id_prompts.push_back(parse_ids(ids));
        if (options_.prompts.empty() && id_prompts.empty() && sources.empty()) {
            sources.emplace_back("-");
        }
        const auto is_input = [](const std::filesystem::path& file) { return file == "-"; };
        const bool has_prompt = !options_.prompts.empty() || !id_prompts.empty();
        leaves_input_ = (has_prompt || !options_.files.empty()) &&
                        std::ranges::none_of(options_.files, is_input);
        tell_of_pipe();
        for (const std::string& prompt : options_.prompts) submit_text(prompt);
        for (std::vector<int32_t>& ids : id_prompts) submit_ids(std::move(ids));
        for (const Source& source : sources) read_source(source);
    }

    int finish() {
        const auto stopped = [] { return stop_signal().has_value(); };
        printer_.wait(0, stopped);
        if (const auto signal = stop_signal()) return exit_code_for_signal(*signal);
        if (!printer_.broken()) printer_.close();
        tell_of_pipe();
        tell_of_template();
        if (const auto fault = printer_.write_fault()) throw Error(ErrorKind::io, *fault);
        if (printer_.broken()) return 0;
        const auto fault = printer_.first_fault();
        return fault ? exit_code_for(*fault) : 0;
    }

    int64_t num_tokens() const { return printer_.num_tokens(); }

  private:
    // Once: dropped output must be reported.
    void tell_of_pipe() {
        if (!leaves_input_ || !has_waiting_pipe()) return;
        leaves_input_ = false;
        fmt::print(stderr,
                   "nvllm-run: standard input is not read beside a prompt: -f - makes it another "
                   "one, -p \"Summarize: $(cat)\" a part of one\n");
    }

    // Where people see it, or where the answer is no help: pipelines stay as they are.
    void tell_of_template() const {
        const bool is_wanted = ::isatty(STDERR_FILENO) != 0 || !printer_.has_text();
        const auto& tokenizer = engine_.tokenizer();
        if (!completes_text_ || options_.chat || !is_wanted || printer_.first_fault()) return;
        if (tokenizer == nullptr || tokenizer->chat_template().empty()) return;
        fmt::print(stderr,
                   "nvllm-run: {}the prompt was completed as it stands; the model has a chat "
                   "template, and --chat asks with it (--no-chat: say nothing)\n",
                   printer_.has_text() ? "" : "the answer is empty: ");
    }

    bool stopped() const { return stop_signal().has_value() || printer_.broken(); }

    void read_source(const Source& source) {
        LineReader reader = source.reader();
        const auto stop = [this] { return stopped(); };
        if (options_.input_format == "text") {
            const std::string text = reader.rest(stop);
            if (!stopped()) submit_text(without_last_end(without_byte_order_mark(text)));
            return;
        }
        const std::string of_file = options_.files.size() > 1 ? " of " + source.name() : "";
        for (size_t number = 1; const auto line = reader.next(stop); ++number) {
            if (line->find_first_not_of(" \t") == std::string::npos) continue;
            submit_line(*line, fmt::format("line {}{}", number, of_file));
        }
    }

    void submit_text(const std::string& text) {
        JsonRequest request;
        request.prompt_text = text;
        request.input.prompt = text;
        if (options_.chat == true) {
            request.input.prompt = as_question(text);
            request.input.allow_special_in_messages = options_.allow_special_in_messages;
        } else {
            completes_text_ = true;
        }
        request.input.sampling = answers_.sampling;
        request.input.grammar = answers_.grammar;
        request.input.adapter = answers_.adapter;
        submit(std::move(request), next_prompt());
    }

    ChatPrompt as_question(const std::string& text) const {
        Conversation conversation;
        if (options_.system_prompt) {
            conversation.messages.push_back({.role = "system", .content = *options_.system_prompt});
        }
        conversation.messages.push_back({.role = "user", .content = text});
        return std::make_shared<const Conversation>(std::move(conversation));
    }

    std::string next_prompt() { return fmt::format("prompt {}", ++num_prompts_); }

    void submit_ids(std::vector<int32_t> ids) {
        JsonRequest request;
        request.input.prompt = std::move(ids);
        request.input.sampling = answers_.sampling;
        request.input.grammar = answers_.grammar;
        request.input.adapter = answers_.adapter;
        submit(std::move(request), next_prompt());
    }

    void submit_line(const std::string& line, const std::string& place) {
        auto request = request_from_json_text(line, answers_.sampling);
        if (!request) {
            printer_.add_fault({}, request.fault(), place);
            return;
        }
        add_system_prompt(*request);
        if (!request->says_format) request->input.grammar = answers_.grammar;
        request->input.adapter = request->adapter.value_or(adapter_of(request->model));
        request->input.allow_special_in_messages = options_.allow_special_in_messages;
        submit(std::move(*request), place);
    }

    // A line that was written for a server may name an adapter as its model.
    std::string adapter_of(const std::string& model) const {
        const bool is_adapter = engine_.adapters().is_enabled() && !model.empty() &&
                                engine_.adapters().find(model).ok();
        return is_adapter ? model : answers_.adapter_of_lines;
    }

    // Conversations without a system message get the one of --system-prompt.
    void add_system_prompt(JsonRequest& request) const {
        const auto* chat = std::get_if<ChatPrompt>(&request.input.prompt);
        if (chat == nullptr || !options_.system_prompt) return;
        const std::string& first = (*chat)->messages.front().role;
        if (first == "system" || first == "developer") return;
        Conversation conversation = **chat;
        conversation.messages.insert(conversation.messages.begin(),
                                     {.role = "system", .content = *options_.system_prompt});
        request.input.prompt = std::make_shared<const Conversation>(std::move(conversation));
    }

    void submit(JsonRequest request, const std::string& place) {
        auto prepared = engine_.prepare(request.input);
        if (!prepared) {
            printer_.add_fault(std::move(request), prepared.fault(), place);
            return;
        }
        const size_t index = printer_.add(std::move(request), prepared->prompt_token_ids, place);
        engine_.submit(std::move(*prepared), [this, index](RequestOutput&& output) {
            printer_.take(index, std::move(output));
        });
        printer_.wait(kMaxOpenAnswers, [] { return stop_signal().has_value(); });
    }

    Engine& engine_;
    const RunOptions& options_;
    const AnswerDefaults& answers_;
    AnswerPrinter printer_;
    size_t num_prompts_ = 0;       // texts and lists of ids
    bool leaves_input_ = false;    // nothing reads standard input, and nothing was said of it yet
    bool completes_text_ = false;  // a text was taken as it stands
};

}  // namespace

int run_batch(Engine& engine, const RunOptions& options, const AnswerDefaults& answers,
              bool show_timings) {
    std::optional<InspectDump> dump;
    if (options.inspect_dump) {
        dump.emplace(engine, *options.inspect_dump, options.inspect_dump_step);
    }
    const auto begin = std::chrono::steady_clock::now();
    Batch batch(engine, options, answers);
    batch.read_all();
    const int code = batch.finish();
    if (dump) dump->finish();
    if (show_timings) {
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        fmt::print(stderr, "nvllm-run: {}\n",
                   describe(engine.stats(), batch.num_tokens(), took.count()));
    }
    return code;
}

}  // namespace nvllm::run
