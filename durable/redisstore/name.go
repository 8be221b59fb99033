package redisstore

// nameOf returns what a timer is called in Redis: a byte with the length of the
// topic, the topic, the key.
func nameOf(topic, key string) string {
	return string([]byte{byte(len(topic))}) + topic + key
}

// cut is the reverse of nameOf. What has another form becomes a key with no topic.
func cut(name string) (topic, key string) {
	if name == "" || len(name) < 1+int(name[0]) {
		return "", name
	}
	end := 1 + int(name[0])
	return name[1:end], name[end:]
}
