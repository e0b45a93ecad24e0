// SPDX-License-Identifier: Apache-2.0
// Proves: a good configuration means what it says; every mistake is one error with its line; what
// would open the broker when ignored is an error; a file cut at any byte is parsed or refused,
// never read past its end; the report never runs over.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/config.h"
#include "admin/ustar.h"

static u8 tar[1u << 18];
static struct config config;
static struct config_report report;

static usize add(usize at, const char *name, const char *data, usize len) {
  u8 *h = tar + at;
  memset(h, 0, USTAR_BLOCK + ALIGN_UP(len, (usize)USTAR_BLOCK));
  snprintf((char *)h, 100, "%s", name);
  snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)len);
  h[156] = '0';
  memcpy(h + 257, "ustar\00000", 8);
  memset(h + 148, ' ', 8);
  u32 sum = 0;
  for (u32 i = 0; i < USTAR_BLOCK; i++) {
    sum += h[i];
  }
  snprintf((char *)h + 148, 8, "%06o", sum);
  memcpy(h + USTAR_BLOCK, data, len);
  return at + USTAR_BLOCK + ALIGN_UP(len, (usize)USTAR_BLOCK);
}

static enum err parse_len(const char *text, usize len) {
  usize end = add(0, "ca.crt", "CA", 2);
  end = add(end, "server.crt", "CERT", 4);
  end = add(end, "server.key", "KEY", 3);
  end = add(end, "empty", "", 0);
  end = add(end, "urmqtt.conf", text, len);
  return config_parse(bytes_of(tar, end), &config, &report);
}
static enum err parse(const char *text) {
  return parse_len(text, strlen(text));
}

#define TLS_LISTENER                                                                       \
  "listener 8883\ncafile ca.crt\ncertfile /etc/mosquitto/server.crt\nkeyfile server.key\n" \
  "require_certificate true\nuse_identity_as_username true\n"

static void meaning(void **state) {
  (void)state;
  assert_int_equal(parse("allow_anonymous true\n" TLS_LISTENER
                         "max_connections 17\nmax_qos 1\nmax_topic_alias 3\nlistener 1883 0.0.0.0\n"
                         "max_connections -1\nnetwork 192.0.2.10/24 gateway 198.51.100.1 mac "
                         "52:54:00:aB:cd:ef\nnetwork dhcp\nmax_packet_size 4096\n"
                         "max_inflight_messages 0\nmax_queued_messages 7\nmax_keepalive 60\n"
                         "persistent_client_expiration 2d\n"
                         "retain_available false\npersistence false\n"),
                   ERR_OK);
  const struct config_listener *l = config.listener;
  assert_int_equal(config.listener_count, 2);
  assert_int_equal(l[0].port, 8883);
  assert_true(bytes_equal_str(l[0].cafile.data, "CA") &&
              bytes_equal_str(l[0].certfile.data, "CERT"));
  assert_true(bytes_equal_str(l[0].keyfile.data, "KEY"));
  assert_true(bytes_equal_str(l[0].certfile.name, "server.crt"));
  assert_true(l[0].require_certificate && l[0].use_identity_as_username &&
              l[0].security.allow_anonymous);
  assert_int_equal(l[0].max_connections, 17);
  assert_int_equal(l[0].max_qos, 1);
  assert_true(l[1].port == 1883 && l[1].max_qos == 2 && l[1].max_connections == 0);
  assert_true(l[1].certfile.data.len == 0 && !l[1].require_certificate &&
              l[1].security.allow_anonymous);
  const struct config_network *n = config.network;
  assert_int_equal(config.network_count, 2);
  assert_true(!n[0].dhcp && n[0].address == 0xc000020a && n[0].prefix_len == 24);
  assert_true(n[0].gateway == 0xc6336401 && n[0].has_mac);
  assert_memory_equal(n[0].mac, "\x52\x54\0\xab\xcd\xef", 6);
  assert_true(n[1].dhcp && !n[1].has_mac && n[1].ip6.mode == NET_IP6_AUTO);
  assert_true(config.max_packet_size == 4096 && config.max_inflight_messages == 65535);
  assert_true(config.max_queued_messages == 7 && config.max_keepalive == 60);
  assert_true(config.listener[0].max_topic_alias == 3 && !config.retain_available &&
              !config.persistence);
  assert_int_equal(config.persistent_client_expiration_s, 2 * 86400);
}

static void anonymous_by_listener(void **state) {
  (void)state;
  assert_int_equal(parse("per_listener_settings true\nlistener 1883\nallow_anonymous "
                         "true\n" TLS_LISTENER),
                   ERR_OK);
  assert_true(config.listener[0].security.allow_anonymous);
  assert_false(config.listener[1].security.allow_anonymous);
  // Without it, as in mosquitto, one line opens every listener, wherever it stands.
  assert_int_equal(parse(TLS_LISTENER "listener 1883\nallow_anonymous true\n"), ERR_OK);
  assert_true(config.listener[0].security.allow_anonymous &&
              config.listener[1].security.allow_anonymous);
  assert_int_equal(parse("listener 1883\n"), ERR_INVALID);  // nobody could connect
}

static void mistakes(void **state) {
  (void)state;
  static const struct {
    const char *line;
    const char *reason;
  } cases[] = {
      {"listener", "port from 1 to 65535"},
      {"listener 65536", "port from 1 to 65535"},
      {"listener 8883", "line 1"},
      {"listener 1883 somewhere", "leave it out"},
      {"cafile", "cafile wants the name of a file"},
      {"crlfile nothing.crl", "no file \"nothing.crl\""},
      {"crlfile empty", "is empty"},
      {"require_certificate yes", "true or false"},
      {"max_qos 3", "max_qos wants a number from 0 to 2"},
      {"durability some", "durability wants strict or relaxed, not \"some\""},
      {"listener_durability", "listener_durability wants"},
      {"storage perhaps", "storage wants required or optional, not \"perhaps\""},
      {"max_qos -1", "0 to 2"},
      {"max_qos 99999999999999999999999999", "0 to 2"},
      {"max_connections 0", "1 to"},
      {"persistent_client_expiration 5x", "h d w m y"},
      {"persistent_client_expiration d", "h d w m y"},
      {"network", "dhcp or ADDRESS/PREFIX"},
      {"network 1.2.3/8", "dhcp or ADDRESS/PREFIX"},
      {"network 1.2.3.4.5/8", "dhcp or ADDRESS/PREFIX"},
      {"network 1.2.3.256/8", "dhcp or ADDRESS/PREFIX"},
      {"network dhcp mac 52:54:00:12:34", "mac"},
      {"network dhcp gateway", "gateway"},
      {"acl_file a", "no file \"a\""},
      {"password_file a", "no file \"a\""},
      {"plugin_opt_acl_file b", "no file \"b\""},
      {"psk_file a", "let in"},
      {"use_san_as_username ip", "dns or email"},
      {"bind_interface eth0", "let in"},
      {"include_dir", "name of a folder"},
      {"protocol amqp", "websockets or http_api"},
      {"accept_protocol_versions 3,6", "3,4,5"},
      {"accept_protocol_versions", "3,4,5"},
      {"mount_point a/+/", "beginning of a topic"},
      {"capath nowhere", "no files in a folder"},
      {"enable_proxy_protocol 3", "1 to 2"},
      {"plugin /usr/lib/x.so", "cannot run here"},
      {"log_type nonsense", "no type"},
      {"cleansession true", "after the `connection` line"},
      {"topic # out", "after the `connection` line"},
      {"allow_zero_length_clientid maybe", "true or false"},
      {"max_conections 1", "did you mean \"max_connections\""},
      {"certfil x", "did you mean \"certfile\""},
      {"log_typ x", "did you mean \"log_type\""},
      {"zzz", "unknown keyword \"zzz\""},
      {"\x1b[2Jx", "\\x1b"},
  };
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    char text[512];
    snprintf(text, sizeof text, TLS_LISTENER "%s\n", cases[i].line);
    assert_int_equal(parse(text), ERR_INVALID);
    assert_int_equal(report.error_count, 1);
    assert_int_equal(report.problem[report.count - 1].line, 7);
    if (strstr(report.problem[report.count - 1].text, cases[i].reason) == NULL) {
      fail_msg("%s: %s", cases[i].line, report.problem[report.count - 1].text);
    }
  }
}

// How mosquitto 2.1 lists a listener's place and limits.
static void listener_keywords(void **state) {
  (void)state;
  assert_int_equal(
      parse("max_qos 1\nport 1884\nbind_address 10.0.0.1\nallow_anonymous true\nlistener 1883\n"
            "mount_point home/\naccept_protocol_versions 3,5\nlistener_auto_id_prefix x-\n"
            "max_topic_alias 7\nmax_topic_alias_broker 8\nlistener_allow_anonymous true\n"
            "disable_client_cert_date_checks true\nlistener 1885\nprotocol "
            "websockets\nwebsockets_origin https://a\nwebsockets_origin https://b\n"
            "listener 1886 127.0.0.1\nlistener 9883\nprotocol http_api\nhttp_dir /usr/share\n"),
      ERR_OK);
  assert_int_equal(config.listener_count, 5);
  const struct config_listener *l = config.listener;
  assert_true(l[0].port == 1883 && l[0].served && l[0].versions == (1 << 3 | 1 << 5));
  assert_true(bytes_equal_str(l[0].mount_point, "home/"));
  assert_true(bytes_equal_str(l[0].auto_id_prefix, "x-"));
  assert_true(l[0].max_topic_alias == 7 && l[0].max_topic_alias_broker == 8);
  assert_true(l[0].disable_client_cert_date_checks && l[0].max_qos == 2);
  assert_true(l[1].websockets && l[1].origin_count == 2);
  assert_true(l[1].served && !l[2].served && !l[3].served);            // loopback, HTTP
  assert_true(l[4].port == 1884 && l[4].served && l[4].max_qos == 1);  // the implied one, last
  assert_true(ip_equal(l[4].address, ip_of4(0x0a000001)));
  // listener_allow_anonymous goes before what is everybody's.
  assert_int_equal(parse("allow_anonymous true\nlistener 1883\nlistener_allow_anonymous false\n"),
                   ERR_INVALID);
  // The implied one on a port that is taken.
  assert_int_equal(parse("allow_anonymous true\nmax_qos 1\nlistener 1883\n"), ERR_INVALID);
}

static void broker_keywords(void **state) {
  (void)state;
  assert_int_equal(
      parse(
          "listener 1883\nallow_anonymous true\nmessage_size_limit 1000\nmemory_limit 5000000000\n"
          "global_max_clients 5\nglobal_max_connections -1\nmax_inflight_bytes 9\n"
          "max_queued_bytes 10\nqueue_qos0_messages true\nretain_expiry_interval 3\n"
          "upgrade_outgoing_qos true\nallow_duplicate_messages false\nsys_interval 0\n"
          "auto_id_prefix y-\nlog_dest topic\nlog_type error\nlog_type subscribe\n"
          "connection_messages false\nplugin /usr/lib/mosquitto_persist_sqlite.so\n"
          "plugin_opt_sync off\n"),
      ERR_OK);
  assert_true(config.message_size_limit == 1000 && config.memory_limit == 5000000000);
  assert_true(config.global_max_clients == 5 && config.global_max_connections == 0);
  assert_true(config.max_inflight_bytes == 9 && config.max_queued_bytes == 10);
  assert_true(config.queue_qos0_messages && config.upgrade_outgoing_qos);
  assert_true(!config.allow_duplicate_messages && !config.connection_messages);
  assert_true(config.retain_expiry_interval_min == 3 && config.sys_interval_s == 0);
  assert_true(bytes_equal_str(config.auto_id_prefix, "y-") && config.log_topic);
  assert_int_equal(config.log_types, 1 << LOG_ERROR | 1 << LOG_SUBSCRIBE);
}

static void bridge_keywords(void **state) {
  (void)state;
  assert_int_equal(
      parse(
          "listener 1883\nallow_anonymous true\nconnection c1\naddress a.example:8883 b.example\n"
          "topic # both 2 local/ remote/\ntopic \"\" in 0 a b\ntopic x\nrestart_timeout 10 40 60\n"
          "bridge_protocol_version mqttv50\nstart_type lazy\nclientid me\nremote_password p\n"
          "bridge_cafile ca.crt\nkeepalive_interval 5\nconnection c2\naddress c\n"
          "restart_timeout 7\nlocal_cleansession true\n"),
      ERR_OK);
  const struct config_bridge *b = config.bridge;
  const struct config_bridge_topic *t = config.bridge_topic;
  assert_true(config.bridge_count == 2 && b[0].address_count == 2 && b[1].address_count == 1);
  assert_true(bytes_equal_str(b[0].address[0].host, "a.example") && b[0].address[0].port == 8883);
  assert_true(b[0].address[1].port == 1883 && b[0].protocol_version == 5 && b[0].start_type == 1);
  assert_true(b[0].restart_base_s == 10 && b[0].restart_cap_s == 40 && b[0].restart_stable_s == 60);
  assert_true(b[1].restart_base_s == 7 && b[1].restart_cap_s == 7 && b[1].local_cleansession == 2);
  assert_true(bytes_equal_str(b[0].remote_clientid, "me") && b[0].cafile.data.len == 2);
  assert_true(config.bridge_topic_count == 3 && t[0].direction == BRIDGE_BOTH && t[0].qos == 2);
  assert_true(bytes_equal_str(t[0].remote_prefix, "remote/") && t[1].pattern.len == 0);
  assert_true(t[1].direction == BRIDGE_IN && t[2].direction == BRIDGE_OUT && t[2].qos == 0);
  static const char *const wrong[] = {
      "connection c\n",
      "connection c\naddress a:0\n",
      "connection c\naddress [2001:db8::1\n",
      "connection c\naddress [a]:8883\n",
      "connection c\naddress [2001:db8::1]8883\n",
      "connection c\naddress a\ntopic x sideways\n",
      "connection c\naddress a\ntopic x in 3\n",
      "connection c\naddress a\ntopic \"\" in 0 a\n",
      "connection c\naddress a\nrestart_timeout 9 3\n",
      "connection c\naddress a\nkeepalive_interval 4\n",
      "connection c\naddress a\nconnection c\naddress b\n",
  };
  for (u32 i = 0; i < ARRAY_COUNT(wrong); i++) {
    char text[256];
    snprintf(text, sizeof text, "listener 1883\nallow_anonymous true\n%s", wrong[i]);
    assert_int_equal(parse(text), ERR_INVALID);
    assert_int_equal(report.error_count, 1);
  }
}

// IPv6 literals: of bridges, listeners and name servers.
static void ip6_literals(void **state) {
  (void)state;
  assert_int_equal(parse("listener 1883 2001:db8::2\nallow_anonymous true\nlistener 1884 ::\n"
                         "listener 1885 ::1\nlistener 1886 0.0.0.0\ndns 2001:db8::53 192.0.2.53\n"
                         "connection c\naddress [2001:db8::1]:8883 2001:db8::9 [fe80::1]\n"),
                   ERR_OK);
  const struct config_listener *l = config.listener;
  assert_true(l[0].address.hi == 0x20010db8ull << 32 && l[0].address.lo == 2 && l[0].served);
  assert_true(ip_is_none(l[1].address) && l[1].served && !l[2].served);
  assert_true(ip_equal(l[3].address, ip_of4(0)) && l[3].served);
  assert_true(config.dns_count == 2 && config.dns[0].lo == 0x53);
  const struct config_bridge *b = config.bridge;
  assert_true(b->address_count == 3 && b->address[0].port == 8883 && b->address[1].port == 1883);
  assert_true(bytes_equal_str(b->address[0].host, "2001:db8::1"));
  assert_true(bytes_equal_str(b->address[1].host, "2001:db8::9"));
  assert_true(bytes_equal_str(b->address[2].host, "fe80::1"));
}

static void network_lines(void **state) {
  (void)state;
  assert_int_equal(parse("listener 1883\nallow_anonymous true\n"
                         "network dhcp ip6 2001:db8::2/128 gateway6 fe80::1\n"
                         "network 2001:db8::3/64\nnetwork off ip6 off\n"
                         "network 192.0.2.9/32 gateway 198.51.100.1 ip6 auto\n"),
                   ERR_OK);
  const struct config_network *n = config.network;
  assert_int_equal(config.network_count, 4);
  assert_true(n[0].dhcp && n[0].ip6.mode == NET_IP6_STATIC && n[0].ip6.prefix_len == 128);
  assert_true(n[0].ip6.gateway.hi == 0xfe80ull << 48 && n[0].ip6.gateway.lo == 1);
  assert_true(!n[1].dhcp && n[1].address == 0 && n[1].ip6.address.lo == 3);
  assert_true(!n[2].dhcp && n[2].address == 0 && n[2].ip6.mode == NET_IP6_OFF);
  assert_true(n[3].prefix_len == 32 && n[3].ip6.mode == NET_IP6_AUTO);
  static const char *const wrong[] = {"192.0.2.1",
                                      "192.0.2.1/33",
                                      "192.0.2.1/0",
                                      "0.0.0.0/24",
                                      "2001:db8::1",
                                      "2001:db8::1/129",
                                      "ff02::1/64",
                                      "::1/128",
                                      "dhcp ip6",
                                      "dhcp ip6 on",
                                      "dhcp ip6 192.0.2.1/24",
                                      "dhcp ip6 2001:db8::1",
                                      "dhcp gateway6 192.0.2.1",
                                      "dhcp gateway6 ff02::2"};
  for (u32 i = 0; i < ARRAY_COUNT(wrong); i++) {
    char text[256];
    snprintf(text, sizeof text, "listener 1883\nallow_anonymous true\nnetwork %s\n", wrong[i]);
    assert_int_equal(parse(text), ERR_INVALID);
    assert_int_equal(report.error_count, 1);
  }
}

// Files of a folder, in the order of their names, each with its own line numbers; the rest of the
// file that named them goes on behind them.
static void included(void **state) {
  (void)state;
  static const char text[] =
      "include_dir /etc/mosquitto/conf.d/\nmax_qos 1\nlistener 1885\nwrong 1\ncapath certs\n";
  usize end = add(0, "etc/mosquitto/conf.d/b.conf", "wrong 2\nlistener 1884\n", 22);
  end = add(end, "conf.d/a.conf", "\n\nwrong 3\ninclude_dir x\nlistener 1883\n", 38);
  end = add(end, "conf.d/deeper/c.conf", "wrong 4\n", 8);
  end = add(end, "conf.d/README", "wrong 5\n", 8);
  end = add(end, "certs/one", "1", 1);
  end = add(end, "certs/two", "2", 1);
  end = add(end, "urmqtt.conf", text, sizeof text - 1);
  assert_int_equal(config_parse(bytes_of(tar, end), &config, &report), ERR_INVALID);
  static const struct {
    const char *file;
    u32 line;
  } want[] = {{"conf.d/a.conf", 3},
              {"conf.d/a.conf", 4},
              {"etc/mosquitto/conf.d/b.conf", 1},
              {"urmqtt.conf", 4}};
  for (u32 i = 0; i < ARRAY_COUNT(want); i++) {
    assert_string_equal(report.problem[i].file, want[i].file);
    assert_int_equal(report.problem[i].line, want[i].line);
  }
  assert_int_equal(config.listener_count, 3);
  assert_true(config.listener[0].port == 1883 && config.listener[1].port == 1884);
  assert_true(config.listener[1].max_qos == 1 && config.listener[2].max_qos == 2);
  assert_true(config.listener[2].capath.count == 2);
}

// mosquitto's rule: without a listener only its own machine is served, and nobody else lives here.
static void no_listener(void **state) {
  (void)state;
  assert_int_equal(
      parse("allow_anonymous true\nlistener 1883\nlistener_durability relaxed\nlistener 1884\n"),
      ERR_OK);
  assert_true(config.listener[0].durability_relaxed && !config.listener[1].durability_relaxed);
  assert_true(!config.durability_relaxed && !config.storage_required);
  assert_int_equal(
      parse("allow_anonymous true\ndurability relaxed\nstorage required\nlistener 1883\n"), ERR_OK);
  assert_true(config.durability_relaxed && config.storage_required);
  assert_int_equal(
      parse("allow_anonymous true\ndurability strict\nstorage optional\nlistener 1883\n"), ERR_OK);
  assert_true(!config.durability_relaxed && !config.storage_required);
  assert_int_equal(parse("persistence true\n"), ERR_OK);
  assert_int_equal(config.listener_count, 0);
  assert_non_null(strstr(report.problem[report.count - 1].text, "Write `listener 1883`"));
}

static void whole_file(void **state) {
  (void)state;
  static const char *const texts[] = {
      "cafile ca.crt\n",
      "allow_anonymous true\nlistener 1\ncertfile server.crt\n",
      "allow_anonymous true\nlistener 1\nkeyfile server.key\n",
      "allow_anonymous true\nlistener 1\ncafile ca.crt\n",
      "allow_anonymous true\nlistener 1\nrequire_certificate true\n",
      "listener 1\ncertfile server.crt\nkeyfile server.key\nuse_identity_as_username true\n",
  };
  for (u32 i = 0; i < ARRAY_COUNT(texts); i++) {
    assert_int_equal(parse(texts[i]), ERR_INVALID);
    assert_true(report.error_count >= 1);
  }
  memset(tar, 0, 1024);
  assert_int_equal(config_parse(bytes_of(tar, 1024), &config, &report), ERR_INVALID);
  memset(tar, 'x', 1024);
  assert_int_equal(config_parse(bytes_of(tar, 1024), &config, &report), ERR_INVALID);
  assert_non_null(strstr(report.problem[0].text, "ustar"));
}

static void cut_anywhere(void **state) {
  (void)state;
  static const char text[] = TLS_LISTENER
      "network 192.0.2.10/24 gateway 192.0.2.1\nmax_qos 1\n"
      "persistent_client_expiration 2d\n";
  for (usize len = 0; len < sizeof text; len++) {
    usize end = 0;
    (void)parse_len(text, len);
    end = 8 * USTAR_BLOCK + USTAR_BLOCK + len - USTAR_BLOCK;  // the conf file's last byte
    u8 *exact = malloc(end + USTAR_BLOCK);
    memcpy(exact, tar, end);
    u8 *cut = realloc(exact, end);
    enum err e = config_parse(bytes_of(cut, end), &config, &report);
    assert_true((e == ERR_OK) == (report.error_count == 0));
    free(cut);
  }
}

static void report_is_bounded(void **state) {
  (void)state;
  static char text[32768];
  text[0] = 0;
  for (u32 i = 0; i < 1000; i++) {
    strcat(text, "nonsense 1\n");
  }
  assert_int_equal(parse(text), ERR_INVALID);
  assert_int_equal(report.count, CONFIG_PROBLEMS_MAX);
  assert_int_equal(report.error_count, 1000);
  text[0] = 0;
  for (u32 i = 1; i <= CONFIG_LISTENERS_MAX + 1; i++) {
    char line[32];
    snprintf(line, sizeof line, "listener %u\n", i);
    strcat(text, line);
  }
  strcat(text, "allow_anonymous true\n");
  assert_int_equal(parse(text), ERR_INVALID);
  assert_int_equal(report.error_count, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(meaning),          cmocka_unit_test(anonymous_by_listener),
      cmocka_unit_test(mistakes),         cmocka_unit_test(listener_keywords),
      cmocka_unit_test(broker_keywords),  cmocka_unit_test(bridge_keywords),
      cmocka_unit_test(ip6_literals),     cmocka_unit_test(network_lines),
      cmocka_unit_test(included),         cmocka_unit_test(no_listener),
      cmocka_unit_test(whole_file),       cmocka_unit_test(cut_anywhere),
      cmocka_unit_test(report_is_bounded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
