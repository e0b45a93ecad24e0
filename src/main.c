// SPDX-License-Identifier: Apache-2.0
// The wiring: which parts exist and in which order they start. Each platform calls urmqtt_main once
// it is ready; it returns after a clean stop.
#include "admin/command_line.h"
#include "admin/console.h"
#include "admin/control.h"
#include "admin/cores.h"
#include "admin/diagnose.h"
#include "admin/log.h"
#include "admin/serve.h"
#include "admin/serve_store.h"
#include "admin/setup.h"
#include "admin/sys.h"
#include "loop/loop.h"

static u32 argon_lease;  // between the cores (server_limits)

static void warn_of_platform(void) {
  u8 probe[8];
  if (plat_random(span_of(probe, sizeof probe)) == ENTROPY_WEAK) {
    say("warning: this machine has no good source of random numbers; keys made now are weak");
  }
  if (plat_wall().quality == CLOCK_UNSET) {
    say("warning: the time is not known; expired certificates cannot be told from good ones");
  }
}

// With a disk one: the others' sessions would not be kept.
static u32 cores_wanted(const struct config *config, const struct carve *carve) {
  u32 n = serve_cores(config, carve_left(carve));
  if (n > 1 && serve_store() != NULL) {
    say("one core is used of %u: with a disk more are not served yet", n);
    return 1;
  }
  return n;
}

static void print_end(const struct core *core) {
  const struct server_stats *s = server_stats(core->server);
  const struct broker_stats *b = broker_stats(core->broker);
  say("stopped: %llu connections, %llu publishes in, %llu out, %llu dropped, %llu protocol errors",
      (unsigned long long)s->accepted, (unsigned long long)b->publish_received,
      (unsigned long long)b->publish_sent, (unsigned long long)b->publish_dropped,
      (unsigned long long)s->protocol_errors);
  if (s->logins_good + s->logins_bad + s->logins_refused > 0) {
    say("logins: %llu good, %llu bad, %llu without a place, %llu ms of hashing, %llu us at once",
        (unsigned long long)s->logins_good, (unsigned long long)s->logins_bad,
        (unsigned long long)s->logins_refused, (unsigned long long)s->login_ns / 1000000,
        (unsigned long long)s->login_longest_ns / 1000);
  }
}

static void find_store(struct carve *carve, bool check) {
  if (!check && !serve_store_find(carve)) {
    say("Stopped: what is on the disk is needed, and nothing is served without it.");
    plat_end(END_STOP);
  }
}

void urmqtt_main(void) {
  struct carve carve;
  struct limits limits;
  bool check = command_line_has("check");
  if (command_line_has("diagnostics")) {
    diagnose_main();
  }
  say("urMQTT " URMQTT_VERSION ", an MQTT broker that is the operating system");
  carve_init(&carve);
  setup_interactive(&carve);
  const struct config *config = serve_config(&carve);
  setup_started_from_medium(&carve, config);
  find_store(&carve, check);
  bool enough = serve_security_init(&carve, config);
  limits_from_memory(carve_left(&carve), cores_wanted(config, &carve), &limits);
  serve_limits(config, &limits);
  if (enough) {
    limits.server.argon_arena = serve_security_arena();
    limits.server.argon_lease = limits.cores > 1 ? &argon_lease : NULL;
  }
  if (!enough || !cores_init(&carve, &limits)) {
    plat_crash("E010", "This machine has too little memory for urMQTT: give it 64 MiB or more.");
  }
  struct core *core = cores_at(0);
  if (config != NULL && !serve_security(core, config)) {
    say("configuration: nothing of it is used. urMQTT answers ping and nothing else.");
    config = NULL;
  }
  if (check) {
    bool good = config != NULL && serve_listeners(core, config, false) &&
                serve_bridges(core, &carve, config, false);
    say(good ? "check: the configuration is good" : "check: the configuration is not good");
    plat_end(good ? END_POWER_OFF : END_STOP);
  }
  if (!serve_store_start(core, config)) {
    say("Nothing is served. urMQTT answers ping and nothing else.");
    config = NULL;
  }
  limits_print(&limits);
  say("TLS: %s", tls_describe_cpu());
  warn_of_platform();
  serve_store_say(config);
  serve_addresses(core, config);
  if (config != NULL && !serve_listeners(core, config, true)) {
    say("warning: some listeners are missing, see above");
  }
  if (config != NULL && !serve_bridges(core, &carve, config, true)) {
    say("warning: some bridges are missing, see above");
  }
  if (!sys_start(core, config != NULL ? config->sys_interval_s : 0) || !console_start(core)) {
    say("warning: no timer is left: no $SYS, no console");
  }
  if (config != NULL) {
    log_configure(config);
    log_attach(config, core);
    control_configure(core, config);
  }
  loop_stage(core, "console over MQTT", control_stage, NULL);
  loop_stage(core, "log", log_stage, NULL);
  loop_stage(core, "network watch", serve_watch, NULL);
  loop_stage(core, "stop", cores_stop_stage, NULL);
  if (config != NULL && !cores_serve(config)) {
    say("warning: some listeners are missing on some cores, see above");
  }
  cores_loop();
  for (u32 i = 0; i < cores_count(); i++) {
    print_end(cores_at(i));
  }
  serve_store_end();
}
