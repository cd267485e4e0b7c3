package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Config returns the settings for crypto/tls, nil when TLS is off. The error names what is
// wrong with the PEM text and never repeats it.
func (t TLS) Config() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("ca holds no certificate in PEM form")
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("cert and key must be given together")
	}
	if t.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
