// SPDX-License-Identifier: Apache-2.0
// One command at a time: begin, add its fields to ctl_request, send, look at ctl_answer.
#pragma once
#include "base/json.h"

extern struct json ctl_answer;  // good until the next ctl_send
extern const char *ctl_fault;   // the error that the last answer tells; NULL: none
extern struct json_out ctl_request;

void ctl_begin(const char *command);
// The answer's data, JSON_NONE: it has none.
u32 ctl_send(void);
// Ends the program when there was an error, which befell `what`.
void ctl_check(const char *what);
// A value of the answer as the broker sent it, and a newline.
void ctl_raw(u32 node);
