// SPDX-License-Identifier: Apache-2.0
// Certificates and keys of a configuration, judged before anything boots.
#include "admin/config.h"
#include "base/fmt.h"
#include "tls/tls.h"

static struct bytes name_of(const struct config_listener *l, enum tls_input input) {
  switch (input) {
  case TLS_INPUT_CERTIFICATE: return l->certfile.name;
  case TLS_INPUT_KEY: return l->keyfile.name;
  case TLS_INPUT_CA: return l->cafile.data.len > 0 ? l->cafile.name : l->capath.name;
  case TLS_INPUT_CRL: return l->crlfile.name;
  case TLS_INPUT_NONE: break;
  }
  return BYTES_LIT("urmqtt.conf");
}

void config_tls_problem(const struct config_listener *l, const struct tls_problem *p,
                        struct config_problem *out) {
  *out = (struct config_problem){.severity = CONFIG_ERROR, .line = p->line};
  struct writer w = writer_init(span_of(out->file, sizeof out->file - 1));
  fmt_escaped(&w, name_of(l, p->input));
  (void)fmt_z(out->text, sizeof out->text, "%s (listener %u)", p->reason, l->port);
}

static void add(struct config_report *r, const struct config_listener *l,
                const struct tls_problem *p) {
  r->error_count++;
  if (r->count < CONFIG_PROBLEMS_MAX) {
    config_tls_problem(l, p, &r->problem[r->count++]);
  }
}

enum err config_check_tls(const struct config *config, u64 now_s, struct config_report *report) {
  struct tls_time now = {.unix_s = now_s, .lower_unix_s = now_s, .trusted = true};
  for (u32 i = 0; i < config->listener_count; i++) {
    const struct config_listener *l = &config->listener[i];
    if (l->certfile.data.len == 0) {
      continue;
    }
    struct tls_config t = {.certificate = l->certfile.data,
                           .key = l->keyfile.data,
                           .ca = l->cafile.data,
                           .more_ca = l->capath.data,
                           .more_ca_count = l->capath.count,
                           .crl = l->crlfile.data,
                           .require_certificate = l->require_certificate};
    struct tls_problem problem = {0};
    struct tls_context *context = tls_context_new(&t, &now, &problem);
    if (context == NULL) {
      add(report, l, &problem);
    } else {
      tls_context_unref(context);
    }
  }
  return report->error_count > 0 ? ERR_INVALID : ERR_OK;
}
