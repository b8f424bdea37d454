// The form in which one chat template wants what can be said in several ways.
//
// Include it only in .cc files, as chat_message.h.
#pragma once

#include "lib/chat/chat_message.h"
#include "lib/chat/chat_template.h"

namespace nvllm {

struct MessageForm {
    bool takes_parts = false;     // it joins the parts of a content itself
    bool needs_parts = false;     // and a plain text is lost in it
    bool null_content = false;    // null, not "", where a call of tools has no content
    bool argument_texts = false;  // arguments as JSON text, not as an object
    bool knows_developer = true;  // else the role "developer" is "system"
};

// Found out by rendering a few small conversations. The defaults hold where the template shows none
// of them.
MessageForm form_of(const ChatTemplate& source);

// The messages as such a template is given them. Throws chat::TemplateFailure for arguments that
// are nested too deeply to be written as text.
ChatJson messages_in_form(const std::vector<ChatMessage>& messages, const MessageForm& form);

}  // namespace nvllm
