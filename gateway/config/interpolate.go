package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// secret is a value that came from the environment or a file, and how it was written. It
// must not appear in a message.
type secret struct{ value, written string }

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxIncluded bounds a file named by ${file:...}.
const maxIncluded = 1 << 20

// expand replaces ${env:NAME} and ${file:PATH}; what they stand for is not expanded again.
// referred says whether there was a reference at all.
func (d *decoder) expand(s string) (out string, referred bool, err error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), referred, nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return "", true, errors.New("${ has no closing }; write $${ for a plain ${")
		}
		written := s[i : i+end+1]
		value, err := d.resolve(written[2:end])
		if err != nil {
			return "", true, fmt.Errorf("%s: %w", written, err)
		}
		d.secrets = append(d.secrets, secret{value, written})
		b.WriteString(value)
		referred = true
		s = s[i+end+1:]
	}
}

func (d *decoder) resolve(reference string) (string, error) {
	kind, name, _ := strings.Cut(reference, ":")
	var value string
	switch kind {
	case "env":
		if !envName.MatchString(name) {
			return "", errors.New("is not the name of an environment variable")
		}
		v, ok := d.opts.Env(name)
		if !ok {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		value = v
	case "file":
		if name == "" {
			return "", errors.New("needs a path")
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(d.file), name)
		}
		data, err := d.opts.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("cannot be read: %w", err)
		}
		value = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	default:
		return "", errors.New("is neither ${env:NAME} nor ${file:PATH}; write $${ for a plain ${")
	}
	if !utf8.ValidString(value) {
		return "", errors.New("does not hold UTF-8 text")
	}
	return value, nil
}

func readIncluded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIncluded+1))
	if err == nil && len(data) > maxIncluded {
		err = fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return data, err
}

// hide replaces what references stand for by the references. Values under four bytes are
// left: they would blot out ordinary words.
func hide(msg string, secrets []secret) string {
	for _, s := range secrets {
		if len(s.value) >= 4 {
			msg = strings.ReplaceAll(msg, s.value, s.written)
		}
	}
	return msg
}
