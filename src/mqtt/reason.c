// SPDX-License-Identifier: Apache-2.0
#include "mqtt/reason.h"

const char *mqtt_reason_name(enum mqtt_reason r) {
  switch (r) {
  case MQTT_SUCCESS: return "success";
  case MQTT_GRANTED_QOS_1: return "granted QoS 1";
  case MQTT_GRANTED_QOS_2: return "granted QoS 2";
  case MQTT_DISCONNECT_WITH_WILL: return "disconnect with will message";
  case MQTT_NO_MATCHING_SUBSCRIBERS: return "no matching subscribers";
  case MQTT_NO_SUBSCRIPTION_EXISTED: return "no subscription existed";
  case MQTT_CONTINUE_AUTHENTICATION: return "continue authentication";
  case MQTT_REAUTHENTICATE: return "re-authenticate";
  case MQTT_UNSPECIFIED_ERROR: return "unspecified error";
  case MQTT_MALFORMED_PACKET: return "malformed packet";
  case MQTT_PROTOCOL_ERROR: return "protocol error";
  case MQTT_IMPLEMENTATION_ERROR: return "implementation specific error";
  case MQTT_UNSUPPORTED_VERSION: return "unsupported protocol version";
  case MQTT_CLIENT_ID_NOT_VALID: return "client identifier not valid";
  case MQTT_BAD_USER_OR_PASSWORD: return "bad user name or password";
  case MQTT_NOT_AUTHORIZED: return "not authorized";
  case MQTT_SERVER_UNAVAILABLE: return "server unavailable";
  case MQTT_SERVER_BUSY: return "server busy";
  case MQTT_BANNED: return "banned";
  case MQTT_SERVER_SHUTTING_DOWN: return "server shutting down";
  case MQTT_BAD_AUTH_METHOD: return "bad authentication method";
  case MQTT_KEEP_ALIVE_TIMEOUT: return "keep alive timeout";
  case MQTT_SESSION_TAKEN_OVER: return "session taken over";
  case MQTT_TOPIC_FILTER_INVALID: return "topic filter invalid";
  case MQTT_TOPIC_NAME_INVALID: return "topic name invalid";
  case MQTT_PACKET_ID_IN_USE: return "packet identifier in use";
  case MQTT_PACKET_ID_NOT_FOUND: return "packet identifier not found";
  case MQTT_RECEIVE_MAXIMUM_EXCEEDED: return "receive maximum exceeded";
  case MQTT_TOPIC_ALIAS_INVALID: return "topic alias invalid";
  case MQTT_PACKET_TOO_LARGE: return "packet too large";
  case MQTT_MESSAGE_RATE_TOO_HIGH: return "message rate too high";
  case MQTT_QUOTA_EXCEEDED: return "quota exceeded";
  case MQTT_ADMINISTRATIVE_ACTION: return "administrative action";
  case MQTT_PAYLOAD_FORMAT_INVALID: return "payload format invalid";
  case MQTT_RETAIN_NOT_SUPPORTED: return "retain not supported";
  case MQTT_QOS_NOT_SUPPORTED: return "QoS not supported";
  case MQTT_USE_ANOTHER_SERVER: return "use another server";
  case MQTT_SERVER_MOVED: return "server moved";
  case MQTT_SHARED_NOT_SUPPORTED: return "shared subscriptions not supported";
  case MQTT_CONNECTION_RATE_EXCEEDED: return "connection rate exceeded";
  case MQTT_MAXIMUM_CONNECT_TIME: return "maximum connect time";
  case MQTT_SUBSCRIPTION_ID_NOT_SUPPORTED: return "subscription identifiers not supported";
  case MQTT_WILDCARD_NOT_SUPPORTED: return "wildcard subscriptions not supported";
  }
  return "unknown reason";
}

u8 mqtt_v4_return_code(enum mqtt_reason r) {
  switch (r) {
  case MQTT_SUCCESS: return 0;
  case MQTT_UNSUPPORTED_VERSION: return 1;
  case MQTT_CLIENT_ID_NOT_VALID: return 2;
  case MQTT_BAD_USER_OR_PASSWORD: return 4;
  case MQTT_NOT_AUTHORIZED: return 5;
  case MQTT_BANNED: return 5;
  default: return 3;  // server unavailable
  }
}
