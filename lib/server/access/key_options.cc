// Names and help of the options on keys.
#include "lib/server/access/key_options.h"

namespace nvllm::server {

OptionList<KeyOptions> key_options() {
    OptionList<KeyOptions> list("api");
    list.group("Access");
    list.add("api-key", &KeyOptions::api_keys,
             "A key that clients must send; other users of the machine can see it, so prefer "
             "--api-key-file or NVLLM_API_KEY.",
             value_name("KEY"), secret(), takes_several());
    list.add("api-key-file", &KeyOptions::api_key_file,
             "Keys, one a line: [NAME:]KEY [rpm=N] [tpm=N] [concurrency=N]. Read again on SIGHUP.",
             value_name("FILE"), default_text("none"));
    list.add("allow-unauthenticated", &KeyOptions::allow_unauthenticated,
             "Listen beyond this machine without a key.");
    return list;
}

OptionList<KeyOptions> cache_isolation_options() {
    OptionList<KeyOptions> list("api");
    list.group("Access");
    list.add("cache-isolation", &KeyOptions::cache_isolation,
             "Who shares cached prompts; auto: each key has its own when there are several.",
             choices({"auto", "none", "key"}));
    return list;
}

}  // namespace nvllm::server
