// Names and help of nvllm-run's own options.
#include "tools/run/run_options.h"

namespace nvllm::run {

OptionList<RunOptions> run_options() {
    OptionList<RunOptions> list("run");
    list.group("Input (without any, standard input is one prompt; on a terminal, a chat begins)");
    list.add("prompt", &RunOptions::prompts, "Text to complete as it stands.", short_name('p'),
             value_name("TEXT"));
    list.add(
        "file", &RunOptions::files,
        "File whose text, without the end of its last line, is a prompt; - for standard input.",
        short_name('f'), value_name("FILE"));
    list.add("chat", &RunOptions::chat,
             "Ask the prompt as a question, by the model's chat template; without it a prompt is "
             "completed as it stands.",
             default_text("only without a prompt, on a terminal"));
    list.add("prompt-ids", &RunOptions::prompt_ids, "Prompt as token ids, such as 1,15043,2.",
             value_name("IDS"));
    list.add(
        "input-format", &RunOptions::input_format,
        "jsonl: each line of the files, or of standard input, is a request: {\"prompt\": ...}, "
        "{\"prompt_token_ids\": [...]} or {\"messages\": [...]} with any sampling field, or an "
        "OpenAI batch line.",
        choices({"text", "jsonl"}));
    list.add("system-prompt", &RunOptions::system_prompt, "System message of a chat, or of --chat.",
             alias("system"), value_name("TEXT"));
    list.add("allow-special-in-messages", &RunOptions::allow_special_in_messages,
             "Let special tokens in the contents of messages be themselves; without it they are "
             "plain text.");
    list.add("adapter", &RunOptions::adapter,
             "The adapter of --lora-modules that prompts have, and lines of JSON that name none "
             "(\"adapter\").",
             value_name("NAME"), default_text("of prompts the only one there is"));
    list.group("Output");
    list.add(
        "output-format", &RunOptions::output_format,
        "text alone; json: one object, or an array for several answers; jsonl: one object a line.",
        choices({"text", "json", "jsonl"}));
    list.add("show-timings", &RunOptions::show_timings,
             "Say on standard error how long things took.", default_text("on a terminal"));
    list.add("step-log", &RunOptions::step_log, "Write a JSON line for every step of the engine.",
             value_name("FILE"));
    list.add("inspect-dump", &RunOptions::inspect_dump,
             "At the end of a batch, write what cache and scheduler hold, for nvllm-inspect.",
             value_name("FILE"));
    list.add("inspect-dump-step", &RunOptions::inspect_dump_step,
             "Write the dump after this step of the engine instead.", at_least(1));
    list.add("plan", &RunOptions::plan, "Print the memory plan, from headers alone, and leave.");
    return list;
}

}  // namespace nvllm::run
