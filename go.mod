module github.com/vacancy-host/vacancy

go 1.26.0
